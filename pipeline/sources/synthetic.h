// Made-up records: any number, size, cost and share of faults.
#pragma once

#include <penstock/rng.h>
#include <penstock/source.h>
#include <penstock/sources.h>
#include <penstock/work.h>

namespace penstock {

/// See SyntheticOptions. A record is a function of the options and its index. Throws
/// Error{invalid_argument} naming the option that is wrong.
SourcePtr make_synthetic_source(const SyntheticOptions& options);

/// Burns each element's share of `cost_us` on the thread that runs it and passes it on unchanged;
/// null if nothing costs.
WorkOpPtr make_synthetic_cost_op(const SyntheticOptions& options);

/// A draw, at least 0. Uses up to two of the numbers of `rng`.
double draw(const Distribution& distribution, Rng rng);

/// "5", "uniform:1:9", "lognormal:110000:0.5:1000000": the inverse of parse_synthetic for one
/// value.
std::string to_text(const Distribution& distribution);

}  // namespace penstock
