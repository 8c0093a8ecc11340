// The append-only log of the deliveries that a consumer acknowledged, and the checks on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace penstock::test {

/// A delivery: the ids of a batch and a checksum over all its bytes, or an error.
using Delivery = std::string;

/// The contents of the log of one consumer, whose process may have died any number of times.
struct LogReading {
  std::vector<Delivery> deliveries;  ///< in order, without those that a resumed process took back
  bool finished = false;
  std::vector<std::string> broken;  ///< the promises that were broken, one sentence each
  std::vector<double>
      first_batch_ms;  ///< of each process: from reading the state to its first batch
  std::map<std::string, int> kill_points;  ///< where processes killed themselves
  std::size_t largest_state = 0;
};

/// Reads the log. Each line ends with " .\n"; a kill tore the other lines. The lines are:
///    resume N        a process resumes after N deliveries
///    first MS        milliseconds from reading the state to its first batch
///    batch WHAT      a delivery was acknowledged
///    saved N BYTES   a state after N deliveries is durable
///    kill POINT      the process dies here
///    end             the run has ended
/// A process must resume at the last durable position, or at a later one that it had begun to save.
/// It must never resume before a durable position, or after the last acknowledged delivery.
LogReading read_log(const std::string& path);

/// The differences between a stream and that of an uninterrupted run.
struct Difference {
  int missing = 0;       ///< deliveries that never came
  int repeated = 0;      ///< deliveries that came too often
  int out_of_order = 0;  ///< deliveries in another place
  bool none() const noexcept { return missing == 0 && repeated == 0 && out_of_order == 0; }
};
Difference compare(const std::vector<Delivery>& expected, const std::vector<Delivery>& seen);

}  // namespace penstock::test
