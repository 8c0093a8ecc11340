// A queue of shares of steps. Any tower that has room takes one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <penstock/error.h>

#include "pipeline/core/thread_annotations.h"
#include "staging/clock.h"
#include "staging/journal.h"
#include "staging/steps.h"

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

  /// Waits until there is room.
  void push(Queued share) EXCLUDES(mutex_);
  /// Adds all entries at once, after those in the queue. Returns when everything was taken.
  void push_for_all(std::vector<Queued> queued) EXCLUDES(mutex_);
  /// Waits for an entry. Throws Error{cancelled} once the queue is closed.
  Queued take(int tower) EXCLUDES(mutex_);
  /// Wakes all waiting threads. Idempotent.
  void close() noexcept EXCLUDES(mutex_);

 private:
  TimeSource& clock_;
  const std::size_t most_;
  Mutex mutex_;
  Signal changed_;
  std::deque<Queued> queue_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
