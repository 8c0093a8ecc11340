// Permission for updates, if towers do not wait for each other.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/strategy.h>

namespace penstock::towers {

/// Tickets that limit the number of updates. A tower takes a ticket before it takes a batch. So the
/// planned number of updates is never exceeded, and no batch is taken that would exceed it. A
/// ticket returns to the others if its gradient was dropped or there was no batch for it.
/// Thread-safe.
class UpdateTickets {
 public:
  /// Tickets are for updates up to `until`. `begun` is set if towers are fed in turn: the number of
  /// batches and ends that each tower has asked for. No tower may get two ahead of another.
  /// Otherwise the feed would wait for that other tower, which may get no ticket any more.
  /// `strategy` and `begun` must outlive the tickets.
  UpdateTickets(const Strategy& strategy, std::uint64_t until, std::vector<std::uint64_t>* begun)
      : strategy_(strategy), until_(until), begun_(begun) {}

  /// Waits for a ticket. False if all updates were made, or `close` was called.
  bool take(int tower) EXCLUDES(mutex_);
  /// Returns a ticket after its update was made, or if there is none to make.
  void give_back() EXCLUDES(mutex_);
  /// Ends all waiting; no more tickets are given out.
  void close() EXCLUDES(mutex_);

 private:
  bool may_take(int tower) const REQUIRES(mutex_);

  const Strategy& strategy_;
  const std::uint64_t until_;
  SlowMutex mutex_;  // held while the strategy tells its step, which waits for an update
  CondVar changed_;
  std::vector<std::uint64_t>* const begun_ PT_GUARDED_BY(mutex_);
  std::uint64_t taken_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace penstock::towers
