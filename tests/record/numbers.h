// Small graphs of numbers, {x: i64}, from which the record's graphs are made.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "tests/support/noisy.h"
#include "tests/support/numbers.h"

namespace penstock::test {

inline std::int64_t number_of(const Element& element) {
  return element["x"].item<std::int64_t>();
}

inline bool is_odd(const Element& element) {
  return number_of(element) % 2 != 0;
}

inline std::int64_t third_of(const Element& element) {
  return ((number_of(element) % 3) + 3) % 3;
}

/// Turns a number into a list that repeats it (x modulo 4) times.
inline Dataset lists(const Dataset& input) {
  return input.map(
      [](Element e) {
        const std::int64_t x = number_of(e);
        const std::vector<std::int64_t> list(static_cast<std::size_t>(x % 4), x);
        return Element({{"x", Tensor::of<std::int64_t>({x % 4}, list)}});
      },
      {.name = "list", .output = Spec({{"x", DType::i64, {Shape::kUnknown}}})});
}

/// Adds a text with the number's digits.
inline Dataset with_text(const Dataset& input) {
  return input.map(
      [](Element e) {
        e.set("text", Tensor::copy_bytes(std::string(3, 'a') + std::to_string(number_of(e))));
        return e;
      },
      {.name = "text", .output = Spec({{"x", DType::i64, {}}, {"text", DType::bytes, {}}})});
}

/// Fails the elements whose number modulo `of` is `bad`.
inline Dataset failing_each(const Dataset& input, std::int64_t of, std::int64_t bad) {
  return input.map(
      [of, bad](Element element) {
        if (number_of(element) % of == bad)
          throw std::runtime_error("no " + std::to_string(number_of(element)));
        return element;
      },
      {.name = "failing"});
}

}  // namespace penstock::test
