// An edge whose results are single values.
#pragma once

#include <utility>

#include "pipeline/engine/edge.h"

namespace penstock {

/// Values in the order of the input (or as they finish), errors in their place or, with `skip`,
/// passed over. At most a few groups for each thread are in flight or wait to be pulled.
class ValueEdge final : public Edge {
 public:
  ValueEdge(Run& run, const Node& owner, OrderIteratorPtr input, const OpenContext& context,
            bool ordered);
  ~ValueEdge() override {
    stop();
    settle();
  }

 private:
  std::size_t wait_for_room() override;
  void admit(Group& group) override REQUIRES(mutex_);
  void finished(Group& group) override REQUIRES(mutex_);
  void redone_more(Group& group) override REQUIRES(mutex_);
  bool is_first(const Group& group) const override REQUIRES(mutex_);
  Undelivered last_undelivered() override REQUIRES(mutex_);
  void ended() override REQUIRES(mutex_) { ended_ = true; }
  std::size_t deliver(std::span<Item> out) override REQUIRES(mutex_);
  bool drained() const override REQUIRES(mutex_) { return over_ || (ended_ && admitted_ == 0); }

  void save_more(StateWriter& state) const override REQUIRES(mutex_);
  void restore_more(StateReader& state) override REQUIRES(mutex_);
  /// Where in the window there is something to deliver, or to take down; nowhere: its size.
  std::size_t next_group() const REQUIRES(mutex_);
  /// Notes that a result out of order was delivered. False if it had been before the state was
  /// saved.
  bool first_time(std::uint64_t sequence) REQUIRES(mutex_);

  /// Counts what was good behind the last bad one.
  void settle() REQUIRES(mutex_) { run_.ledger().pass(account_, std::exchange(good_, 0)); }

  const bool ordered_;
  // Out of order: what was delivered behind the first item that was not.
  Ring<char> delivered_ GUARDED_BY(mutex_);
  // In order; or, if unordered, those that are done or have been redone in part.
  Ring<Group*> window_ GUARDED_BY(mutex_);
  std::size_t admitted_ GUARDED_BY(mutex_) = 0;
  std::uint64_t good_ GUARDED_BY(mutex_) = 0;  // since the last that was passed over
  bool ended_ GUARDED_BY(mutex_) = false;
  bool over_ GUARDED_BY(mutex_) = false;  // the ledger said so
};

}  // namespace penstock
