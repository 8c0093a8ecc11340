// The gain of each possible change to a run, whatever limits the run now.
#pragma once

#include <string>
#include <vector>

#include "report/run_report.h"

namespace penstock {

/// A change, and bounds for the elements per second that the run would reach with it.
struct Prize {
  std::string change;  ///< "a free input", "one more core", "twice the memory"…
  double low = 0;
  double high = 0;
};

/// Returns the changes that may bring 2 % or more, computed from this run's own figures:
///
/// - "a free input": a batch is always ready, as if one were served again and again. The upper
///   bound also removes the wait for the first batch.
///
/// - "one more core": for threads that compute on all cores, or one more thread.
///
/// - "twice the memory": if the run waited for memory, or only a few batches fit into it. If only
///   one batch fits, the lower bound is half of the time in which the input idles.
///
/// - "images packed as records": the lower bound removes half of the decoding and reads half again
///   as many bytes. The upper bound removes all of the decoding. If decoding was timed separately,
///   only its share of a stage's time counts.
///
/// - "steps twice as fast": a faster device, as far as the input keeps up.
///
/// For a core and for steps, the upper bound assumes that the parts of the input overlap as far as
/// possible. The lower bound assumes that the input idles for as long as it does now. Pure.
std::vector<Prize> prizes(const RunReport& report);

/// Returns text such as "In elements/s, 437 now: 1.17k with a free input, 437 to 655 with one more
/// core."; empty if there are no such changes.
std::string prizes_text(const RunReport& report);

}  // namespace penstock
