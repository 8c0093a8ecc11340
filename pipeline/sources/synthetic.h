// Synthetic records of any number, size, cost and share of faults.
#pragma once

#include <penstock/rng.h>
#include <penstock/source.h>
#include <penstock/sources.h>
#include <penstock/work.h>

namespace penstock {

/// Makes a source of synthetic records, see SyntheticOptions. A record is a function of the options
/// and its index. Throws Error{invalid_argument} that names a wrong option.
SourcePtr make_synthetic_source(const SyntheticOptions& options);

/// Makes an op that burns each element's share of `cost_us` on the thread that runs it, and returns
/// the element unchanged. Returns null if elements cost nothing.
WorkOpPtr make_synthetic_cost_op(const SyntheticOptions& options);

/// Draws a value of at least 0. Uses up to two numbers of `rng`.
double draw(const Distribution& distribution, Rng rng);

/// Returns the text of one value: "5", "uniform:1:9", "lognormal:110000:0.5:1000000". It is the
/// inverse of parse_synthetic.
std::string to_text(const Distribution& distribution);

}  // namespace penstock
