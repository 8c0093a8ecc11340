// A queue of shares of steps. Any tower that has room takes one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/clock.h"
#include "staging/journal.h"
#include "staging/steps.h"
#include "staging/turn_watch.h"

namespace penstock {

/// An entry of the queue: a share, or an event in a share's place.
struct Queued {
  Share share{};
  std::uint64_t event = 0;  ///< its number in the journal
  std::size_t part = 0;
  int tower = FeedJournal::kNobody;  ///< the tower that must take it, if any
  bool end = false;                  ///< the end of an epoch
  bool stop = false;                 ///< nothing follows
  Status error{};
};

/// A queue that one thread fills. One thread for each tower takes from it the oldest entry that the
/// tower may have. Holds as many entries as there are towers. Thread-safe.
class ShareQueue {
 public:
  ShareQueue(TimeSource& clock, int towers)
      : clock_(clock), most_(static_cast<std::size_t>(towers)) {}

  /// Waits until there is room. Throws Error{cancelled} once the queue is closed, as the other two
  /// do that wait.
  void push(Queued share) EXCLUDES(mutex_);
  /// Adds all entries at once, after those in the queue. Returns when everything was taken.
  void push_for_all(std::vector<Queued> queued) EXCLUDES(mutex_);
  /// Waits for an entry.
  Queued take(int tower) EXCLUDES(mutex_);
  /// Returns the tower other than `asks` that must take an entry before the thread that fills the
  /// queue continues.
  FeederWait waits_for(int asks) const EXCLUDES(mutex_);
  /// Wakes all waiting threads. Idempotent.
  void close() noexcept EXCLUDES(mutex_);

 private:
  static constexpr std::int64_t kDoesNotWait = -1;
  /// Waits until the queue holds fewer than `entries`. Throws Error{cancelled} once it is closed.
  void wait_for_room(std::size_t entries) REQUIRES(mutex_);

  TimeSource& clock_;
  const std::size_t most_;
  mutable Mutex mutex_;
  Signal changed_;
  std::deque<Queued> queue_ GUARDED_BY(mutex_);
  std::int64_t waits_since_ GUARDED_BY(mutex_) = kDoesNotWait;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
