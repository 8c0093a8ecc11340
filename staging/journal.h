// A record of the parts that a feed's towers have received, from which a run can resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/state.h>

#include "pipeline/core/ring.h"

namespace penstock {

/// The feeder's events, in order: steps, errors between them and ends of epochs, with the state of
/// each tower's part. Keeps the events that some tower has not received completely, and the input's
/// position in front of the first of them. Thread-safe.
class FeedJournal {
 public:
  static constexpr int kNobody = -1;
  struct Part {
    int tower = kNobody;  ///< the tower that gets the part, once that is decided
    bool given = false;   ///< the part has been returned to that tower
  };
  struct Event {
    bool end = false;
    bool error = false;
    std::uint64_t pulls = 0;  ///< for an error: Step::pulls
    std::vector<Part> parts;
  };

  struct Counts {
    std::uint64_t batches = 0;
    std::uint64_t elements = 0;
  };

  /// `exact`: see RunOptions::exact_state.
  FeedJournal(int towers, bool exact) : exact_(exact), queues_(static_cast<std::size_t>(towers)) {}

  // The feeder calls these.
  /// Called before the first event. `position`: where the input stands. `known`: the events that an
  /// earlier run has recorded.
  void start(std::string position, std::vector<Event> known, Counts counts) EXCLUDES(mutex_);
  /// True if the input's position should be set for the next event.
  bool wants_position(std::int64_t now) const EXCLUDES(mutex_);
  /// Says that the next event is about to be made, and returns its number.
  std::uint64_t begin(std::int64_t now) EXCLUDES(mutex_);
  /// Sets the input's position in front of the event that was begun last. Called while it is being
  /// made.
  void set_position(std::string position, std::int64_t now) EXCLUDES(mutex_);
  /// Sets the input's position behind the event that was begun last. Called before a tower can
  /// receive it, if the state is to be exact.
  void set_position_behind(std::string position) EXCLUDES(mutex_);
  void set_end(std::uint64_t event) EXCLUDES(mutex_);
  void set_error(std::uint64_t event, std::uint64_t pulls) EXCLUDES(mutex_);
  /// Returns the event as an earlier run recorded it, or nothing if it did not.
  std::optional<Event> known(std::uint64_t event) const EXCLUDES(mutex_);
  /// Says that the run gave up at the event before this one. That event then does not count as
  /// delivered, so that a resumed run tries it again.
  void stop(std::uint64_t event) EXCLUDES(mutex_);
  /// Returns the state of a part.
  Part part(std::uint64_t event, std::size_t part) const EXCLUDES(mutex_);
  /// Says that the event has no such part.
  void drop(std::uint64_t event, std::size_t part) EXCLUDES(mutex_);
  /// Gives a part to a tower. Called before the tower can receive it.
  void assign(std::uint64_t event, std::size_t part, int tower) EXCLUDES(mutex_);
  /// Gives a part to a tower of another process. `rows`: of its batch; -1: no batch.
  void assign_elsewhere(std::uint64_t event, int tower, std::int64_t rows) EXCLUDES(mutex_);

  /// A tower has received its oldest assigned part. `rows`: of its batch; -1: no batch.
  void given(int tower, std::int64_t rows) EXCLUDES(mutex_);

  /// A tower of another process has received its oldest assigned part.
  void given_elsewhere(int tower) EXCLUDES(mutex_);

  /// Counts everything that was received, in this run and those before.
  Counts counts() const EXCLUDES(mutex_);

  /// Writes a position of the input, and the state of the events after it. False if some towers
  /// have received their part of one of these events, and others have not.
  bool save(StateWriter& writer) const EXCLUDES(mutex_);

  struct Saved {
    std::string position;
    std::vector<Event> events;
    Counts counts;
  };
  /// Reads what `save` wrote. Throws Error{data_loss}.
  static Saved read(StateReader& reader, int towers);
  /// True if some towers have received their part of the event, and others have not.
  static bool is_within(const Event& event);

 private:
  struct Kept {
    std::string position;  // of the input in front of the event; empty: not recorded
    Event event;
  };
  struct Place {
    std::uint64_t event = 0;
    std::size_t part = 0;
    std::int64_t rows = -1;  // for towers of other processes, whose batches are not seen here
  };
  Kept fresh() REQUIRES(mutex_);
  void forget_what_is_given() REQUIRES(mutex_);
  void give_oldest(int tower, std::int64_t rows) REQUIRES(mutex_);
  Part& at(const Place& place) REQUIRES(mutex_) {
    return kept_[static_cast<std::size_t>(place.event - first_)].event.parts[place.part];
  }

  /// Asking for the input's position takes microseconds, so that happens at most this often.
  static constexpr std::int64_t kEvery_ns = 1'000'000;
  const bool exact_;
  mutable Mutex mutex_;
  Ring<Kept> kept_ GUARDED_BY(mutex_);
  std::vector<Kept> spare_ GUARDED_BY(mutex_);  // kept for their memory
  std::uint64_t first_ GUARDED_BY(mutex_) = 0;  // the number of the oldest event kept
  // The next event to begin; later ones are an earlier run's.
  std::uint64_t next_ GUARDED_BY(mutex_) = 0;
  std::uint64_t known_ = 0;  // the number of an earlier run's events; does not change after `start`
  // This event and later ones are not saved.
  std::uint64_t stopped_ GUARDED_BY(mutex_) = UINT64_MAX;
  std::string start_ GUARDED_BY(mutex_);  // the input's position in front of the first event
  // The position in front of the next event; empty: not recorded.
  std::string behind_ GUARDED_BY(mutex_);
  std::optional<std::int64_t> looked_ns_ GUARDED_BY(mutex_);
  Counts counts_ GUARDED_BY(mutex_);
  std::vector<Ring<Place>> queues_ GUARDED_BY(mutex_);  // one for each tower
};

}  // namespace penstock
