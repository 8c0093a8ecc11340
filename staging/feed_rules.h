// The rules by which a feed treats the rows of a dataset's batches.
#pragma once

#include <cstdint>

#include <penstock/feed.h>
#include <penstock/plan.h>

#include "staging/steps.h"

namespace penstock {

struct FeedRules {
  StepRules steps{};
  std::int64_t room = 1;  ///< the most rows of a tower's batch; 0: see BatchLayout
};

/// Returns the rules for a plan. Throws Error{invalid_argument} if the elements are not known to be
/// batches, or if a mode or end makes no sense for such batches. The message names the option, the
/// stage, and the choices that do make sense.
FeedRules feed_rules(const Plan& plan, const FeedOptions& options, std::int64_t towers);

/// Returns the name, such as "FeedMode::split".
const char* name_of(FeedMode mode) noexcept;
/// Returns the name, such as "EpochEnd::wrap".
const char* name_of(EpochEnd end) noexcept;

}  // namespace penstock
