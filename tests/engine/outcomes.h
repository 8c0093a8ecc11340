// How runs of one graph end with little memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/dataset.h>
#include <penstock/plan.h>

#include "tests/support/time_limit.h"

namespace penstock::test {

/// Returns a digest of all that a run gave, or the error that ended it.
inline std::string outcome_of(const Dataset& dataset, const RunOptions& options) {
  std::uint64_t digest = 0;
  std::size_t count = 0;
  const auto add = [&digest](const void* data, std::size_t bytes) {
    const auto* const begin = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) digest = digest * 31 + begin[i];
  };
  Iterator run = dataset.iterate(options);
  while (Next next = run.next()) {  // each is released before the next
    if (next.is_error()) return std::to_string(count) + ", then " + next.error().what();
    for (std::size_t i = 0; i < next.value().size(); ++i) {
      const Tensor data = next.value()[i].clone();
      if (data.dtype() != DType::bytes) {
        add(data.data(), data.nbytes());
        continue;
      }
      for (std::int64_t k = 0; k < data.volume(); ++k)
        add(data.bytes_at(k).data(), data.bytes_at(k).size());
    }
    ++count;
  }
  return std::to_string(count) + " of digest " + std::to_string(digest);
}

/// Expects of each budget that all runs that fail do so at one element with one text. None may fail
/// with eight times the least, which is at least `floor` bytes. PENSTOCK_OUTCOMES: how many runs
/// each budget gets, in 12 budgets; else a few of each.
inline void expect_one_outcome(const std::string& name, const Dataset& dataset,
                               std::uint64_t floor) {
  const char* const asked = std::getenv("PENSTOCK_OUTCOMES");
  const int runs = asked != nullptr ? std::atoi(asked) : 3;
  const std::vector<double> factors =
      asked != nullptr ? std::vector<double>{1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 16, 64}
                       : std::vector<double>{1, 2, 8};
  const std::string roomy = outcome_of(dataset, {.memory_bytes = 1U << 30});
  EXPECT_EQ(roomy.find("then"), std::string::npos) << name << ": " << roomy;
  const std::uint64_t least = std::max<std::uint64_t>(compile(dataset, {}).least_memory(), floor);
  for (const double factor : factors) {
    const auto budget = static_cast<std::uint64_t>(static_cast<double>(least) * factor);
    std::map<std::string, int> failures;
    for (int run = 0; run < runs; ++run) {
      const TimeLimit limit(100);
      const int threads = std::array{1, 2, 8}[static_cast<std::size_t>(run) % 3];
      const std::string outcome = outcome_of(dataset, {.threads = threads, .memory_bytes = budget});
      if (outcome != roomy) ++failures[outcome];
    }
    std::string list = name + ", " + std::to_string(budget) + " bytes:";
    for (const auto& [outcome, times] : failures) {
      list += "\n  " + std::to_string(times) + " x " + outcome;
      EXPECT_TRUE(outcome.find("then needs") != std::string::npos ||
                  outcome.find("then the elements kept take") != std::string::npos)
          << list;
    }
    EXPECT_LE(failures.size(), 1U) << list;
    if (factor >= 8) {
      EXPECT_TRUE(failures.empty()) << list;
    }
  }
}

}  // namespace penstock::test
