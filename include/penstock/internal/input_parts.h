// The parts of the time that a batch takes, from a run's statistics.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <penstock/stats.h>

namespace penstock {

/// A part of the input, and the time that a batch takes without it.
struct InputPart {
  std::string cause;  ///< "source", "stage NAME" or "budget"
  /// Share of the time between two batches that remains without the part.
  double left = 1;
  /// Share that remains if the part takes half as long.
  double half = 1;
};

/// Returns the parts of an input between two sets of its statistics: the source, each stage, and
/// the wait for memory, in this order. So each part keeps its place from call to call. `elapsed_s`
/// is the time that the input was active between them, or 0 if that is not known.
///
/// `Stats::readers` threads do work that may wait (`StageStats::apart_s`), and `Stats::threads`
/// compute. The slower of the two sets the pace, and without a part the other may be slower. Pure.
///
///     worst(input_parts({}, iterator.stats())).cause   // "stage map[1] image(decode)"
std::vector<InputPart> input_parts(const Stats& before, const Stats& now, double elapsed_s = 0);

/// Returns the part without which the least time remains. REQUIRES: `parts` is not empty;
/// `input_parts` gives at least two.
const InputPart& worst(const std::vector<InputPart>& parts);

}  // namespace penstock
