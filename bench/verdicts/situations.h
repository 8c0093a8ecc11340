// Runs with one deliberate problem each, and the same runs with a remedy.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/iterator.h>

namespace penstock::bench {

struct Situation {
  Dataset dataset;
  RunOptions run{.seed = 7};
  std::int64_t batches = 0;
  std::chrono::microseconds step{0};  ///< the time of a step of the consumer or the tower
  std::string device{};               ///< empty: a loop without towers
  int device_slots = 2;
};

/// The choices of the person that starts the program.
struct Given {
  bool done = false;               ///< apply the remedy
  std::string files{};             ///< a folder or a pattern, if the situation reads files
  std::uint64_t memory_bytes = 0;  ///< as a verdict advised; 0: the default of the situation
};

std::vector<std::string> situation_names();
/// Returns the situation. Throws Error{invalid_argument} for an unknown name.
Situation make_situation(const std::string& name, const Given& given);

}  // namespace penstock::bench
