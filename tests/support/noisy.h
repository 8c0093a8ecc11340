// Numbers that depend on the random numbers of a run.
#pragma once

#include <cstdint>

#include <penstock/dataset.h>

namespace penstock::test {

/// Appends three random digits to x in {x: i64}.
inline Dataset noisy(const Dataset& input) {
  return input.map([](Element element, Rng& rng) {
    const auto x = element["x"].item<std::int64_t>();
    const auto digits = static_cast<std::int64_t>(rng.below(1000));
    element.set("x", Tensor::scalar<std::int64_t>(x * 1000 + digits));
    return element;
  });
}

}  // namespace penstock::test
