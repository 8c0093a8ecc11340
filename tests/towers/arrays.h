// Arrays for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/rng.h>
#include <penstock/towers/array.h>
#include <penstock/towers/layer.h>
#include <penstock/towers/variables.h>

namespace penstock::towers::test {

inline Array array_of(const Shape& shape, std::initializer_list<float> values) {
  Array array(shape);
  std::copy(values.begin(), values.end(), array.data());
  return array;
}

/// Returns different values in [-1, 1], none near 0, at least `1 / size` apart. So a small step
/// changes neither a sign nor a maximum.
inline Array spread_array(const Shape& shape, std::uint64_t seed) {
  Array array(shape);
  const std::size_t n = array.size();
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    const float sign = i % 2 == 0 ? 1.0F : -1.0F;
    values.push_back(sign * (0.1F + 0.9F * static_cast<float>(i + 1) / static_cast<float>(n)));
  }
  Rng rng(seed, 0, 0);
  for (std::size_t i = n; i > 1; --i) std::swap(values[i - 1], values[rng.below(i)]);
  std::copy(values.begin(), values.end(), array.data());
  return array;
}

inline std::vector<float> list(const Array& array) {
  return {array.data(), array.data() + array.size()};
}

/// Returns a pass over this many rows, all valid.
inline Pass skip(std::int64_t rows, bool training = true) {
  Pass pass;
  pass.training = training;
  pass.valid_rows = rows;
  return pass;
}

inline VariableStore host_store(int towers = 1, std::uint64_t seed = 7) {
  return VariableStore(towers, seed);
}

/// Checks that the distance is at most this share of the norm of the expected values.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double norm = 0;
  double difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    norm += std::pow(static_cast<double>(expected[i]), 2);
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm) + 1e-7) << what;
}

}  // namespace penstock::towers::test
