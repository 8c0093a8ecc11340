// Who may make the next update, where towers do not wait for each other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "towers/strategies/strategy.h"

namespace penstock::towers {

/// A tower takes a ticket before it takes a batch, so that no more updates are made than there are
/// to be, and no batch is taken that would make one more. A ticket whose gradient was dropped, or
/// for which there was no batch, is there for the others again. Thread-safe.
class UpdateTickets {
 public:
  /// For updates up to `until`. `begun`: where towers are fed in turn, how many batches and ends
  /// each has asked for; none gets two ahead of another, for the feed would wait for that one,
  /// which may get no ticket any more. Both outlive the tickets.
  UpdateTickets(const Strategy& strategy, std::uint64_t until, std::vector<std::uint64_t>* begun)
      : strategy_(strategy), until_(until), begun_(begun) {}

  /// Waits for a ticket. False: all updates are made, or `close` was called.
  bool take(int tower);
  /// The update was made, or there is none.
  void give_back();
  /// Nobody gets a ticket any more.
  void close();

 private:
  bool may_take(int tower) const;

  const Strategy& strategy_;
  const std::uint64_t until_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::uint64_t>* const begun_;
  std::uint64_t taken_ = 0;
  bool closed_ = false;
};

}  // namespace penstock::towers
