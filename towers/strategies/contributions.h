// Combination of the gradients that several replicas have pushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <penstock/towers/strategy.h>

namespace penstock::towers {

/// A replica's gradient of one variable: a mean over its rows, in memory that may be overwritten.
struct PushedGradient {
  std::int64_t rows = 0;
  float* values = nullptr;
  /// False if the replica had no gradient; the memory then holds old values.
  bool there = false;
};

/// Adds the gradients by the rule for sums, in the given order, into the first one's memory;
/// weights them by rows if they are averaged. False if there is no gradient; nothing is done then.
bool add_up_pushed(std::span<const PushedGradient> pushed, std::size_t count, Combine combine);

}  // namespace penstock::towers
