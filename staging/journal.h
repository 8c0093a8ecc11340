// What a feed's towers have been given, so that a run can go on there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/state.h>

#include "pipeline/core/ring.h"
#include "pipeline/core/thread_annotations.h"

namespace penstock {

/// Steps and ends of epochs, in the order in which the feeder makes them, with what became of each
/// tower's part. Keeps those that some tower has not been given yet, and where the input stood in
/// front of the first of them. Thread-safe.
class FeedJournal {
 public:
  static constexpr int kNobody = -1;
  struct Part {
    int tower = kNobody;  ///< whose it is, once that is settled
    bool given = false;   ///< … and it has been returned to it
  };
  struct Event {
    bool end = false;
    std::vector<Part> parts;
  };

  struct Counts {
    std::uint64_t batches = 0;
    std::uint64_t elements = 0;
  };

  explicit FeedJournal(int towers) : queues_(static_cast<std::size_t>(towers)) {}

  // The feeder.
  /// Before the first event: where the input stands, and what an earlier run said of events.
  void start(std::string position, std::vector<Event> known, Counts counts) EXCLUDES(mutex_);
  /// True if the next event needs to say where the input stands.
  bool wants_position(std::int64_t now) const EXCLUDES(mutex_);
  /// The next event is about to be made; returns its number. `position`: empty unless wanted.
  std::uint64_t begin(std::string position, std::int64_t now) EXCLUDES(mutex_);
  void set_end(std::uint64_t event) EXCLUDES(mutex_);
  /// What is known of a part.
  Part part(std::uint64_t event, std::size_t part) const EXCLUDES(mutex_);
  /// There is no such part.
  void drop(std::uint64_t event, std::size_t part) EXCLUDES(mutex_);
  /// Before the tower can get it.
  void assign(std::uint64_t event, std::size_t part, int tower) EXCLUDES(mutex_);

  /// A tower was given the oldest part that is assigned to it, with so many rows; -1: an end.
  void given(int tower, std::int64_t rows) EXCLUDES(mutex_);

  /// Of all that was given, in this run and those before.
  Counts counts() const EXCLUDES(mutex_);

  /// A position of the input, and what towers have of the events from there on.
  void save(StateWriter& writer) const EXCLUDES(mutex_);

  struct Saved {
    std::string position;
    std::vector<Event> events;
    Counts counts;
  };
  /// Throws Error{data_loss}.
  static Saved read(StateReader& reader, int towers);

 private:
  struct Kept {
    std::string position;  // of the input in front of it; empty: as of the event before
    Event event;
  };
  struct Place {
    std::uint64_t event = 0;
    std::size_t part = 0;
  };
  Kept fresh() REQUIRES(mutex_);
  void forget_what_is_given() REQUIRES(mutex_);
  Part& at(const Place& place) REQUIRES(mutex_) {
    return kept_[static_cast<std::size_t>(place.event - first_)].event.parts[place.part];
  }

  /// Looking where the input stands takes microseconds: not more often than this.
  static constexpr std::int64_t kEvery_ns = 1'000'000;
  mutable Mutex mutex_;
  Ring<Kept> kept_ GUARDED_BY(mutex_);
  std::vector<Kept> spare_ GUARDED_BY(mutex_);  // keep their memory
  std::uint64_t first_ GUARDED_BY(mutex_) = 0;  // number of the front one
  std::uint64_t next_ GUARDED_BY(mutex_) = 0;   // to begin; those behind it are an earlier run's
  std::string start_ GUARDED_BY(mutex_);        // the input's position in front of the first
  std::optional<std::int64_t> looked_ns_ GUARDED_BY(mutex_);
  Counts counts_ GUARDED_BY(mutex_);
  std::vector<Ring<Place>> queues_ GUARDED_BY(mutex_);  // of each tower
};

}  // namespace penstock
