// Rates, computed from counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/stats.h>

namespace penstock::tool {

/// The recent activity of a stage.
struct StageRate {
  std::string name;
  double items_per_s = 0;
  double busy_threads = 0;  ///< the average number of threads that worked in it
  double wait_threads = 0;
  std::string waits_on;
};

/// The recent activity of a tower.
struct TowerRate {
  std::string device;
  double steps_per_s = 0;
  double step_share = 0;   ///< the share of time in which its stream worked on batches
  double stall_share = 0;  ///< the share of time in which its stream waited for one
  std::string cause;       ///< the cause of most of its stalls
};

/// The recent activity of an input worker, and its counts since the run began.
struct WorkerRate {
  std::string address;
  bool connected = false;
  double elements_per_s = 0;
  double bytes_per_s = 0;  ///< in its answers
  double busy_share = 0;   ///< of its threads
  double round_trip_s = 0;
  std::uint64_t shared = 0;  ///< since the run began
  std::uint64_t hedged = 0;  ///< since the run began
  std::uint64_t lost = 0;    ///< since the run began
  std::string problem;
};

/// The recent activity of the whole run.
struct Rates {
  double elements_per_s = 0;
  double bytes_per_s = 0;  ///< that left the last stage
  std::vector<StageRate> stages;
  std::vector<TowerRate> towers;
  std::vector<WorkerRate> workers;
  int threads = 0;  ///< of the run, and of the connected input workers
};

/// Averages over a sliding window of snapshots. Not synchronised.
class Meter {
 public:
  /// `window_s`: the time that the averages cover.
  explicit Meter(double window_s = 1.0) : window_s_(window_s) {}

  /// Adds a snapshot. REQUIRES: `now_s` does not decrease.
  void add(double now_s, const Stats& stats, std::vector<TowerStats> towers = {});
  /// Returns the averages over the window; zeros before the second snapshot.
  Rates rates() const;
  /// Returns the elements per second between neighbouring snapshots, oldest first; at most `count`
  /// values.
  std::vector<double> history(std::size_t count) const;

 private:
  struct Snapshot {
    double at_s = 0;
    Stats stats;
    std::vector<TowerStats> towers;
  };

  const double window_s_;
  std::deque<Snapshot> snapshots_;
  std::deque<double> history_;
  double history_at_s_ = 0;
  std::uint64_t history_elements_ = 0;
};

/// The history of a run. Keeps at most a few thousand snapshots, evenly spaced, however long the
/// run takes. Not synchronised.
class Timeline {
 public:
  struct Point {
    double at_s = 0;
    double elements_per_s = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<double> busy_threads;  ///< for each stage
    std::vector<double> stall_shares;  ///< for each tower
  };

  /// Adds a snapshot. REQUIRES: `now_s` does not decrease.
  void add(double now_s, const Stats& stats, const std::vector<TowerStats>& towers = {});
  /// Returns the activity between neighbouring snapshots.
  std::vector<Point> points() const;

 private:
  static constexpr std::size_t kMost = 4096;
  struct Snapshot {
    double at_s = 0;
    std::uint64_t elements = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<double> busy_s;
    std::vector<double> stall_s;
  };

  std::vector<Snapshot> snapshots_;
  std::size_t every_ = 1;  // of this many given snapshots, one is kept
  std::size_t given_ = 0;
};

}  // namespace penstock::tool
