#include "staging/feed_deal.h"

#include <algorithm>

#include "pipeline/core/begin_run.h"

namespace penstock {
namespace {

/// True for stages that only arrange references, or work on each element by itself.
bool known_by_position(Execution execution) {
  switch (execution) {
    case Execution::references:
    case Execution::positions:
    case Execution::order:
    case Execution::fused:
    case Execution::in_place:
      return true;
    case Execution::stream:
    case Execution::values:
    case Execution::verdicts:
    case Execution::unordered:
    case Execution::held:
    case Execution::gathered:
      return false;
  }
  return false;
}

std::string why(const PlannedStage& stage) {
  switch (stage.execution) {
    case Execution::stream:
      return stage.label + " has no index";
    case Execution::unordered:
      return stage.label + " gives elements in any order";
    default:
      return "what " + stage.label + " gives depends on values";
  }
}

/// True if elements are missing. Then positions do not tell which batches are full, and one source
/// may have fewer full batches than another.
bool has_gaps(const FeedState& saved, const std::vector<Plan>& plans) {
  const auto failed = [](const FeedJournal::Event& event) { return event.error; };
  bool lacks = std::any_of(saved.events.begin(), saved.events.end(), failed);
  for (std::size_t source = 0; source < plans.size() && !lacks; ++source)
    lacks = lacks_elements(saved.position.sources[source], plans[source]);
  return lacks;
}

}  // namespace

std::string why_everywhere(const Plan& plan, OnError on_error) {
  for (const PlannedStage& stage : plan.stages())
    if (!known_by_position(stage.execution)) return why(stage);
  if (!plan.batches() || !plan.batches()->in_place)
    return plan.stages().back().label + " follows the batches";
  if (plan.segments().size() != 1)
    return "what " + plan.segments().front().owner + " gives depends on values";
  if (plan.elements().cardinality() == kUnknown)
    return "how many elements are in front of " + plan.batch_stage().label + " is not known";
  if (on_error == OnError::skip) return "bad elements are skipped, which others take the place of";
  return {};
}

FeedDeal deal_feed(const std::vector<Plan>& plans, const FeedOptions& options, std::int64_t rows,
                   int count, const FeedState* saved) {
  FeedDeal deal;
  std::vector<std::int64_t> cardinalities;  // of the elements before batching
  for (const Plan& plan : plans) {
    deal.everywhere = why_everywhere(plan, options.run.on_error);
    if (!deal.everywhere.empty()) return deal;
    cardinalities.push_back(plan.elements().cardinality());
  }
  if (saved != nullptr && has_gaps(*saved, plans))
    return {.everywhere = "elements failed before the feed was restored, which others came after"};
  const auto towers = static_cast<std::uint64_t>(options.towers_held.of);
  const auto first = static_cast<std::uint64_t>(options.towers_held.first);
  const bool whole = options.mode == FeedMode::per_tower;
  const bool split = options.mode == FeedMode::split;
  // The number of elements of a source that make a step.
  const std::int64_t step =
      options.mode == FeedMode::sharded ? rows : rows * options.towers_held.of;
  std::uint64_t steps = UINT64_MAX;  // full steps, for all towers
  bool rest = false;                 // elements remain after these
  for (const std::int64_t elements : cardinalities) {
    if (elements < 0) continue;
    steps = std::min(steps, static_cast<std::uint64_t>(elements / step));
    rest = rest || elements % step != 0 || elements != cardinalities.front();
  }
  const std::uint64_t batches = whole ? towers : 1;  // of one source in one step
  BatchShare share;
  if (steps < UINT64_MAX) share.whole_from = steps * batches;
  if (options.end == EpochEnd::wrap && rest) share.whole_until = batches;
  for (std::uint64_t source = 0; source < cardinalities.size(); ++source) {
    if (whole) {
      share.first = first;
      share.count = static_cast<std::uint64_t>(count);
      share.of = towers;
    } else if (split) {
      share.first_row = options.towers_held.first * rows;
      share.rows = count * rows;
    } else {
      share.count = source - first < static_cast<std::uint64_t>(count) ? 1 : 0;
    }
    deal.sources.push_back(share);
  }
  return deal;
}

}  // namespace penstock
