// Tables of graphs and their expected output.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/numbers.h"

namespace penstock::test {

/// A graph and all of its output, in the format of `run`.
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

/// Returns the elements of each epoch, as text.
inline std::vector<std::string> epochs_of(const Dataset& dataset, RunOptions options) {
  std::vector<std::string> epochs;
  Iterator iterator = dataset.iterate(options);
  do {
    std::string text;
    for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      text += text_of(*next) + " ";
    }
    epochs.push_back(text);
  } while (iterator.next_epoch());
  return epochs;
}

struct NamedDataset {
  std::string name;
  Dataset dataset;
};

/// Returns the same numbers from inputs of every kind: with an index, as a stream, as references
/// that may fail, as values, as views of batches, and from nested datasets.
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

/// Returns the number of an element that `numbers` made.
inline std::int64_t x_of(const Element& element) {
  return element["x"].item<std::int64_t>();
}

}  // namespace penstock::test
