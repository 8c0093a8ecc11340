// Whether a pipeline gives the same bytes however it is run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>

namespace penstock::tool {

/// A pipeline up to and with one of its stages.
struct Prefix {
  std::string stage;  ///< the last one's name
  Dataset dataset;
};

/// Where two runs part.
struct Divergence {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::string component;  ///< "end" where only one of the runs has an element, "error" where only
                          ///< one has an error, or another
  std::string stage;      ///< the first whose output differs
};

struct DeterminismResult {
  std::uint64_t batches = 0;  ///< compared
  std::uint64_t elements = 0;
  std::uint64_t errors = 0;  ///< in their place, or skipped: the same in both runs
  std::optional<Divergence> first;
};

/// Runs the last of `prefixes` twice at once, with `a` and with `b`, and compares what comes out,
/// up to `limit` batches (0: all). Where it differs, the prefixes are run in the same way to find
/// the stage.
DeterminismResult check_determinism(const std::vector<Prefix>& prefixes, const RunOptions& a,
                                    const RunOptions& b, std::uint64_t limit);

}  // namespace penstock::tool
