// The functions that the vectors in docs/stages.md use. `range` gives {value: i64}.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.h>

#include "tests/support/numbers.h"

namespace penstock::test {

inline std::int64_t value_of(const Element& element) {
  return element["value"].item<std::int64_t>();
}

/// Returns `input`, but the element with the value `bad` fails.
inline Dataset failing(const Dataset& input, std::int64_t bad) {
  return input.map(
      [bad](Element element) {
        if (value_of(element) == bad) throw std::runtime_error("bad element");
        return element;
      },
      {.name = "failing"});
}

inline Dataset renamed(const Dataset& input, const std::string& name) {
  return input.map(
      [name](Element element) {
        return Element({{name, element[0]}});
      },
      {.name = "rename", .output = Spec({{name, DType::i64, {}}})});
}

/// Checks the output with one and more threads, and, if `skip` is given, with OnError::skip, too.
inline void check(int line, const Dataset& dataset, const std::string& expected,
                  const std::string& skip) {
  for (const int threads : {1, 2, 8}) {
    RunOptions options{.threads = threads, .memory_bytes = 16 << 20};
    EXPECT_EQ(run(dataset, options), expected == "nothing" ? "" : expected) << "line " << line;
    if (skip.empty()) continue;
    options.on_error = OnError::skip;
    EXPECT_EQ(run(dataset, options), skip == "nothing" ? "" : skip) << "line " << line;
  }
}

/// Returns the error's text for a graph that must be refused.
template <typename F>
std::string refusal(F build) {
  try {
    (void)build();
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace penstock::test
