// Results in the form of single values.
#pragma once

#include <utility>

#include "pipeline/core/ring.h"
#include "pipeline/core/waker.h"
#include "pipeline/engine/errors/error_account.h"
#include "pipeline/engine/segment/results.h"

namespace penstock {

/// Values in the order of the input, or as they finish. Errors come in their place or, with `skip`,
/// are left out. At most a few groups for each thread are under way or wait to be taken. Behind a
/// group that takes long, others may wait, up to kBehindSlow elements for each of these groups.
///
/// A state machine: it has no threads and never waits. Not synchronised.
class OrderedValues final : public Results {
 public:
  static constexpr std::size_t kMostInGroup = 256;

  /// `room_made` is notified when more groups find room than before. `ends_at_no` is that of the
  /// stage that takes the values: none behind a rejected one is taken together with it.
  OrderedValues(ErrorAccount account, bool ordered, Waker& room_made, bool ends_at_no = false)
      : account_(std::move(account)),
        ordered_(ordered),
        ends_at_no_(ends_at_no),
        room_made_(room_made) {}

  std::size_t room(const Demand& demand) override;
  void admit(Group& group) override;
  void complete(Group& group) override;
  bool has_output() const override { return next_group() < window_.size(); }
  bool waits_for_head() const override;
  bool is_first(const Group& group) const override;
  void end() override { ended_ = true; }
  std::size_t take(std::span<ElementRef> out) override;
  void reuse(Group& group) noexcept override;
  bool drained() const override { return over_ || (ended_ && admitted_ == 0); }
  void settle() override { account_.pass(std::exchange(good_, 0)); }
  std::uint64_t consumed() const noexcept override { return consumed_; }
  std::uint64_t skipped() const noexcept override { return skipped_; }
  void save(StateWriter& state) const override;
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override;

 private:
  std::size_t next_group() const;
  Group& remove_first();
  std::size_t take_from(Group& group, std::span<ElementRef> out);
  bool ends_at(const ElementRef& item) const { return ends_at_no_ && !item.payload->keep; }
  bool first_time(std::uint64_t sequence);

  ErrorAccount account_;
  const bool ordered_;
  const bool ends_at_no_;
  Waker& room_made_;
  // Unordered: which results were taken after the first one that was not.
  Ring<char> delivered_;
  // Ordered: the admitted groups. Unordered: those that are done.
  Ring<Group*> window_;
  std::size_t admitted_ = 0;
  std::size_t spent_ = 0;     // groups that are to be reused, and take room until then
  std::size_t elements_ = 0;  // of the admitted groups
  std::size_t limit_ = 0;     // groups that may be there
  std::uint64_t consumed_ = 0;
  std::uint64_t skipped_ = 0;
  std::uint64_t good_ = 0;  // elements since the last one skipped
  bool ended_ = false;
  bool over_ = false;  // the error budget is exceeded
};

}  // namespace penstock
