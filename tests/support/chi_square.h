// A test whether a sample may come from a uniform distribution.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::test {

/// Returns Pearson's statistic for counts that should be equal.
inline double chi_square(const std::vector<std::int64_t>& counts) {
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const std::int64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

/// Returns the value that the statistic of `cells` equal cells exceeds once in 10,000 samples.
/// Source: Wilson and Hilferty, "The distribution of chi-square", 1931.
inline double chi_square_limit(std::size_t cells) {
  const double freedom = static_cast<double>(cells - 1);
  const double spread = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1.0 - spread + 3.719 * std::sqrt(spread), 3);
}

}  // namespace penstock::test
