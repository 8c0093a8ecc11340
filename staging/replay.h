// A replay of the times of a feed's steps, with one cause of waiting removed.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/internal/input_parts.h>

#include "pipeline/core/ring.h"
#include "staging/area.h"

namespace penstock {

/// The times at which the feeder took a batch from an input, in nanoseconds.
struct PullTimes {
  std::int64_t got = 0;
  /// When the input had it ready; -1: not known, it was made while the feeder waited.
  std::int64_t made = -1;
  /// When the input began it; -1: as soon as it could. An input that makes batches ahead may leave
  /// a place free for a while. That is neither work nor a wait of any thread.
  std::int64_t begun = -1;
  int line = 0;       ///< the number of the input: that of the tower if each has its own
  int slots = 0;      ///< the most batches that the input may hold at once; 0: any number
  bool batch = true;  ///< false: it was an end
};

/// The times of one step of all towers.
struct StepTimes {
  std::int64_t roomed = 0;  ///< when every tower had room for one more batch
  std::vector<PullTimes> pulls;
  std::vector<BatchTimes> batches;  ///< one for each tower
  std::vector<bool> given;          ///< the towers that were given a batch
};

/// The part of those times that was work, or that came from outside. Each is how much later an
/// event happened than the last event that it waited for.
struct StepCosts {
  struct Pull {
    std::int64_t make = 0;
    std::int64_t take = 0;
  };
  struct Batch {
    std::int64_t claim = 0;
    std::int64_t fill = 0;
    std::int64_t copy = 0;
    std::int64_t ask = 0;
    std::int64_t pass = 0;
    std::int64_t step = 0;
    std::int64_t release = 0;
    std::int64_t tail = -1;  ///< on streams that ended after the first one; -1: none did
    bool asked_behind_step = false;
    bool released_behind_step = false;
  };
  std::int64_t room = 0;
  std::vector<Pull> pulls;
  std::vector<Batch> batches;
};

/// One way in which a run that serves its towers in turn might have gone. Each event happens as
/// soon as everything it waits for has happened, and takes the time that it took:
///
/// - The feeder waits for room on every tower, for the input, and for a slot of each area.
/// - A copy waits for the last user of its slot and for the copy before it.
/// - A step waits for the copy, for the tower and for the step before it.
/// - The input waits for one of its slots.
///
/// So a whole run is computed from its recorded times, step by step, in bounded memory. Not
/// synchronised.
class Replay {
 public:
  struct Bounds {
    int towers = 1;
    int slots = 2;         ///< of each area
    int flights = 3;       ///< batches on a device or on their way to it
    int slots_wanted = 2;  ///< as if the budget had room for them
    int flights_wanted = 3;
    int flights_a_slot = 1;  ///< the number of flights that one more slot adds
    int lines = 0;           ///< the number of inputs; 0: as many as towers
    bool in_place = false;
    bool divided = false;  ///< each batch is divided among all towers
    std::int64_t start = 0;
  };
  /// The cause to remove, or half of it: copies at twice the speed, one slot more, a budget twice
  /// as large, or a part of the input that takes half as long.
  struct Without {
    bool half = false;
    bool copies = false;
    bool slots = false;   ///< the limit of their number
    bool budget = false;  ///< the limit of what the input may hold
    int part = -1;        ///< the number of a part of the input; -1: none
    int others = -1;      ///< the other towers become as fast as this one; -1: none
  };

  Replay(const Bounds& bounds, const Without& without);

  /// Computes the costs from the times. This replay is then the run as it happened.
  void measure(const StepTimes& times, StepCosts& costs);
  /// Replays the step with its costs. `times`: for the facts that do not change.
  void replay(const StepTimes& times, StepCosts& costs, const std::vector<InputPart>& parts);
  /// Returns when the tower's last step ended.
  std::int64_t stepped(int tower) const { return lane(tower).stepped; }

 private:
  /// The end of a batch, as later events wait for it.
  struct Past {
    std::int64_t ready = 0;
    std::int64_t released = 0;  // by the host
    std::int64_t ended = 0;     // on all streams
  };
  struct Lane {
    std::vector<Past> past;  // the last few batches, by number
    std::uint64_t batches = 0;
    std::int64_t ready = 0;
    std::int64_t asked = 0;
    std::int64_t got = 0;
    std::int64_t stepped = 0;
  };
  struct Line {
    std::int64_t made = 0;
    Ring<std::int64_t> freed;     // when the last few slots came back, the earliest first
    std::uint64_t came_back = 0;  // the number of all batches that came back
    std::uint64_t pulled = 0;
  };
  static constexpr std::size_t kMostSlots = 512;

  void step(const StepTimes& times, StepCosts& costs, double left);
  void pull(const PullTimes& times, StepCosts::Pull& costs, double left);
  void put(int tower, const BatchTimes& times, StepCosts::Batch& costs);
  void use(Lane& lane, std::int64_t staged, Past& past, const BatchTimes& times,
           StepCosts::Batch& costs);
  void free_slots(const StepTimes& times);
  static void give_back(Line& line, std::int64_t at);
  /// Returns the time of an event that waits for `earliest` and takes `cost`.
  std::int64_t event(std::int64_t earliest, std::int64_t& cost, std::int64_t happened) const;
  const Past* past(const Lane& lane, int back) const;
  int slots() const noexcept;
  int flights() const noexcept;
  bool plays(int tower) const noexcept { return without_.others < 0 || without_.others == tower; }
  Lane& lane(int tower) { return lanes_[static_cast<std::size_t>(tower)]; }
  const Lane& lane(int tower) const { return lanes_[static_cast<std::size_t>(tower)]; }

  const Bounds bounds_;
  const Without without_;
  bool measuring_ = false;
  std::int64_t feeder_;
  std::vector<Lane> lanes_;
  std::vector<Line> lines_;
};

}  // namespace penstock
