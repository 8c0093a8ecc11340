// The times of a feed's steps once more, with one cause of waiting taken away.
#pragma once

#include <cstdint>
#include <vector>

#include <penstock/input_parts.h>

#include "pipeline/core/ring.h"
#include "staging/area.h"

namespace penstock {

/// When the feeder took a batch from an input, in nanoseconds.
struct PullTimes {
  std::int64_t got = 0;
  std::int64_t made = -1;  ///< the input had it ready; -1: not known, it was made meanwhile
  int line = 0;            ///< which input: a tower's number where each has its own
  int slots = 0;           ///< batches that the input may hold at once; 0: any number
  bool batch = true;       ///< rather than an end
};

/// What happened in one step of all towers.
struct StepTimes {
  std::int64_t roomed = 0;  ///< every tower had room for one more batch
  std::vector<PullTimes> pulls;
  std::vector<BatchTimes> batches;  ///< of each tower
  std::vector<bool> given;          ///< which towers were given one
};

/// What of those times was work, or came from outside: how much later each thing happened than all
/// that it waited for.
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
    std::int64_t tail = -1;  ///< on streams that ended after the first; -1: none did
    bool asked_behind_step = false;
    bool released_behind_step = false;
  };
  std::int64_t room = 0;
  std::vector<Pull> pulls;
  std::vector<Batch> batches;
};

/// One way that a run in turn might have gone. Each thing happens as soon as all that it waits for
/// has, and takes what it took: the feeder waits for room on every tower, for the input, and for a
/// slot of each area; a copy for its slot's last user and for the copy before it; a step for the
/// copy, the tower and the step before it; the input for one of its slots. So whole runs are
/// computed from their stamps, step by step, in bounded memory. Not synchronised.
class Replay {
 public:
  struct Bounds {
    int towers = 1;
    int slots = 2;         ///< of each area
    int flights = 3;       ///< batches on a device or on their way there
    int slots_wanted = 2;  ///< had the budget had room for them
    int flights_wanted = 3;
    int flights_a_slot = 1;  ///< more, with one slot more
    bool in_place = false;
    bool divided = false;  ///< each batch goes to all towers
    std::int64_t start = 0;
  };
  /// What is taken away, or half of it: copies at twice the speed, a slot more, a budget twice as
  /// large, a part of the input that works half as long.
  struct Without {
    bool half = false;
    bool copies = false;
    bool slots = false;   ///< that is, their limit
    bool budget = false;  ///< the limit of what the input may hold
    int part = -1;        ///< of the input
    int others = -1;      ///< towers other than this one: they are as fast as it is
  };

  Replay(const Bounds& bounds, const Without& without);

  /// Takes the costs from what happened; this run is the one that did.
  void measure(const StepTimes& times, StepCosts& costs);
  /// Goes through the step with its costs. `times`: for what does not change.
  void replay(const StepTimes& times, StepCosts& costs, const std::vector<InputPart>& parts);
  /// When the tower's last step ended.
  std::int64_t stepped(int tower) const { return lane(tower).stepped; }

 private:
  /// A batch's end, as those that come later wait for it.
  struct Past {
    std::int64_t ready = 0;
    std::int64_t released = 0;  // by the host
    std::int64_t ended = 0;     // on all streams
  };
  struct Lane {
    std::vector<Past> past;  // the last few, by number
    std::uint64_t batches = 0;
    std::int64_t ready = 0;
    std::int64_t asked = 0;
    std::int64_t got = 0;
    std::int64_t stepped = 0;
  };
  struct Line {
    std::int64_t made = 0;
    Ring<std::int64_t> freed;     // when the last few came back, the earliest first
    std::uint64_t came_back = 0;  // of all batches
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
  /// A thing that waits for `earliest`, and takes `cost`.
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
