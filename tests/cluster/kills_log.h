// The log of the victims of the kill harness.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace penstock::cluster::test {

/// The steps of a run: for each tower and step, the ids of its elements.
using Steps = std::map<std::pair<std::uint64_t, int>, std::vector<int>>;

struct KillsLog {
  /// From the last start that made each of them.
  Steps steps{};
  std::map<int, std::uint64_t> first_step{};                ///< of each start
  std::map<int, std::map<int, std::uint64_t>> last_step{};  ///< of each start, by tower
  std::map<std::string, int> kill_points{};
  std::string end{};  ///< steps and digest; empty: the run did not reach its end
};

KillsLog read_kills_log(const std::string& path);

struct Count {
  int missing = 0;
  int repeated = 0;
  int elsewhere = 0;  ///< in another step, or on another tower, than in an undisturbed run
};

/// Counts the elements of `epochs` epochs of `elements` each.
Count count_elements(const KillsLog& log, const KillsLog& undisturbed, int elements, int epochs);

}  // namespace penstock::cluster::test
