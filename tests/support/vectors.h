// Tables of graphs and what must come out of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/numbers.h"

namespace penstock::test {

/// A graph and all of its output, as `run` writes it.
struct Vector {
  std::string name;
  Dataset dataset;
  std::string expected;
  RunOptions options{};
  std::size_t limit = 100000;
};

/// Checks each vector with one and more threads, one and more slots, and tight memory.
inline void expect_vectors(const std::vector<Vector>& vectors) {
  for (const Vector& vector : vectors) {
    for (const int threads : {1, 2, 8}) {
      RunOptions options = vector.options;
      options.threads = threads;
      if (options.slots == 0) options.slots = threads == 8 ? 4 : threads;
      if (options.memory_bytes == 0) options.memory_bytes = threads == 2 ? 1U << 20 : 1U << 26;
      EXPECT_EQ(run(vector.dataset, options, vector.limit), vector.expected)
          << vector.name << ", " << threads << " threads";
    }
  }
}

struct NamedDataset {
  std::string name;
  Dataset dataset;
};

/// The same numbers from inputs of every kind: with an index, as a stream, as references that may
/// fail, as values, as views of batches, and out of nested datasets.
inline std::vector<NamedDataset> inputs_of(const std::vector<std::int64_t>& values) {
  const auto same = [](Element element) { return element; };
  const auto yes = [](const Element&) { return true; };
  return {
      {"indexed", numbers(values)},
      {"stream", stream(values)},
      {"mapped", numbers(values).map(same)},
      {"filtered", numbers(values).filter(yes)},
      {"unbatched", numbers(values).batch(3).unbatch()},
      {"flat", numbers(values).flat_map(
                   [](const Element& element) {
                     return numbers(std::vector<std::int64_t>{element[0].item<std::int64_t>()});
                   },
                   x_spec())},
  };
}

/// Checks `stage` over the same numbers from inputs of every kind.
inline void expect_over_inputs(const std::string& name, const std::vector<std::int64_t>& values,
                               const std::function<Dataset(const Dataset&)>& stage,
                               const std::string& expected) {
  for (const NamedDataset& input : inputs_of(values)) {
    expect_vectors({{name + " of " + input.name, stage(input.dataset), expected}});
  }
}

inline std::vector<std::int64_t> iota(std::int64_t count, std::int64_t start = 0) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(start + i);
  return values;
}

/// The number of an element made by `numbers`.
inline std::int64_t x_of(const Element& element) {
  return element["x"].item<std::int64_t>();
}

}  // namespace penstock::test
