// A check that a pipeline gives the same bytes whatever the run options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>

namespace penstock::tool {

/// A pipeline up to and including one of its stages.
struct Prefix {
  std::string stage;  ///< the name of the last stage
  Dataset dataset;
};

/// The first difference between two runs.
struct Divergence {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  /// "end" if only one of the runs has an element there; "error" if only one has an error, or the
  /// errors differ.
  std::string component;
  std::string stage;  ///< the first stage whose output differs
};

struct DeterminismResult {
  std::uint64_t batches = 0;  ///< the number of compared batches
  std::uint64_t elements = 0;
  std::uint64_t errors = 0;  ///< in an element's place, or skipped: the same in both runs
  std::optional<Divergence> first;
};

/// Runs the last of `prefixes` with `a` and with `b` at the same time, and compares up to `limit`
/// batches (0: all). If there is a difference, runs the shorter prefixes in the same way to find
/// the stage that causes it.
DeterminismResult check_determinism(const std::vector<Prefix>& prefixes, const RunOptions& a,
                                    const RunOptions& b, std::uint64_t limit);

}  // namespace penstock::tool
