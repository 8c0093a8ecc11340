// Rates from counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/stats.h>

namespace penstock::tool {

/// What a stage did lately.
struct StageRate {
  std::string name;
  double items_per_s = 0;
  double busy_threads = 0;  ///< threads that worked in it, on average
  double wait_threads = 0;
  std::string waits_on;
};

/// What a tower did lately.
struct TowerRate {
  std::string device;
  double steps_per_s = 0;
  double step_share = 0;   ///< of the time in which its stream worked on batches
  double stall_share = 0;  ///< … and waited for one
  std::string cause;       ///< that it mostly waited for
};

/// What the whole did lately.
struct Rates {
  double elements_per_s = 0;
  double bytes_per_s = 0;  ///< that left the last stage
  std::vector<StageRate> stages;
  std::vector<TowerRate> towers;
};

/// Averages over a sliding window of snapshots. Not synchronised.
class Meter {
 public:
  /// `window_s`: how far back the averages reach.
  explicit Meter(double window_s = 1.0) : window_s_(window_s) {}

  /// REQUIRES: `now_s` does not go back.
  void add(double now_s, const Stats& stats, std::vector<TowerStats> towers = {});
  /// Over the window; zeros before the second snapshot.
  Rates rates() const;
  /// Elements a second between neighbouring snapshots, oldest first; at most `count` of them.
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

/// A run in pictures: at most a few thousand snapshots, evenly spaced, however long it takes. Not
/// synchronised.
class Timeline {
 public:
  struct Point {
    double at_s = 0;
    double elements_per_s = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<double> busy_threads;  ///< for each stage
    std::vector<double> stall_shares;  ///< for each tower
  };

  /// REQUIRES: `now_s` does not go back.
  void add(double now_s, const Stats& stats, const std::vector<TowerStats>& towers = {});
  /// What happened between neighbouring snapshots.
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
  std::size_t every_ = 1;  // of those given, one is kept
  std::size_t given_ = 0;
};

}  // namespace penstock::tool
