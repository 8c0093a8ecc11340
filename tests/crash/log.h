// The append-only log of what a consumer acknowledged, and what it proves.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace penstock::test {

/// What a batch was: its ids and a checksum over all its bytes, or its error.
using Delivery = std::string;

/// What the log of one consumer says, whose process may have died any number of times.
struct LogReading {
  std::vector<Delivery> deliveries;  ///< in order; what a resumed process took back is gone
  bool finished = false;
  std::vector<std::string> broken;  ///< promises that were broken: each a sentence
  std::vector<double>
      first_batch_ms;  ///< of each process: from reading the state to its first batch
  std::map<std::string, int> kill_points;  ///< where processes killed themselves
  std::size_t largest_state = 0;
};

/// Lines, each ended by " .\n" (others were torn by a kill):
///   resume N        a process goes on behind N deliveries
///   first MS        milliseconds from reading the state to its first
///   batch WHAT      acknowledged
///   saved N BYTES   a state behind N deliveries is durable
///   kill POINT      the process dies here
///   end
/// A process must go on at the last position that was durable, or behind one that it had begun to
/// save: never in front of a durable one, never behind what was acknowledged.
LogReading read_log(const std::string& path);

/// How a stream differs from the one of an uninterrupted run.
struct Difference {
  int missing = 0;       ///< deliveries that never came
  int repeated = 0;      ///< that came more often than they should
  int out_of_order = 0;  ///< in another place
  bool none() const noexcept { return missing == 0 && repeated == 0 && out_of_order == 0; }
};
Difference compare(const std::vector<Delivery>& expected, const std::vector<Delivery>& seen);

}  // namespace penstock::test
