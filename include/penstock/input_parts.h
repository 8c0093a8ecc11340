// What the making of batches consists of, from a run's statistics.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <penstock/stats.h>

namespace penstock {

/// A part of the input, and what making a batch takes when it takes nothing.
struct InputPart {
  std::string cause;  ///< "source", "stage NAME" or "budget"
  double left = 1;    ///< of the time between two batches
  double half = 1;    ///< that would be left if it took half as long
};

/// The parts of an input between two looks at its statistics: the source, each stage, and the wait
/// for memory, in this order, so that the same part has the same place at each look. `elapsed_s`:
/// for how long the input was at work between them, or 0 where that is not known.
///
/// Reads are done by `Stats::readers` threads beside the `threads` that compute, or where there are
/// none by those. The slower of the two sets the pace, and taking a part away leaves what is slower
/// then. Pure.
///
///     worst(input_parts({}, iterator.stats())).cause   // "stage map[1] image(decode)"
std::vector<InputPart> input_parts(const Stats& before, const Stats& now, double elapsed_s = 0);

/// The one that leaves least. REQUIRES: there is one; `input_parts` gives at least two.
const InputPart& worst(const std::vector<InputPart>& parts);

}  // namespace penstock
