#include "staging/feed_rules.h"

#include <algorithm>
#include <string>

namespace penstock {
namespace {

[[noreturn]] void refuse_graph(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

/// Returns why the number of rows of these batches is not known; empty if it is.
std::string varying(const BatchRows& rows) {
  if (!rows.divisible) return "are one whole each";
  if (rows.full == 0) return "have different numbers of rows";
  return {};
}

/// True if rows of all batches have the same shapes, so that they can be joined to one batch.
bool joinable(const Spec& batches) {
  return std::all_of(batches.begin(), batches.end(), [](const ComponentSpec& component) {
    return component.shape.rank() > 0 && component.shape.drop_front().is_static();
  });
}

void refuse_what_is_no_batch(const Plan& plan) {
  const PlannedStage& stage = plan.rows_stage();
  for (const PlannedStage& other : plan.stages()) {
    if (!other.batches || &other == &stage) continue;
    refuse_graph("a feed takes batches, but " + stage.label +
                 " may give something else; put it before " + other.label +
                 ", or batch again after it");
  }
  refuse_graph("a feed takes batches, but the dataset ends with " + stage.name +
               ": add batch (--batch)");
}

void check_mode(const BatchRows& rows, const std::string& label, const FeedOptions& options) {
  if (options.mode != FeedMode::split) return;
  const std::string why = varying(rows);
  if (why.empty()) return;
  refuse_graph("FeedMode::split divides batches, and those of " + label + " " + why +
               ": use FeedMode::per_tower, which gives each tower whole ones");
}

void check_round(const BatchRows& rows, const std::string& label, const FeedOptions& options,
                 std::int64_t towers) {
  if (rows.round == 1 || options.mode == FeedMode::split || !options.in_turn) return;
  const std::string rounds =
      label + " gives " + std::to_string(rows.round) + " batches of a bucket";
  if (options.mode == FeedMode::sharded)
    refuse_graph("FeedMode::sharded: " + rounds +
                 " to one tower, as each has a shard of its own: use FeedMode::per_tower");
  if (rows.round % towers != 0)
    refuse_graph(rounds + " together, and the feed has " + std::to_string(towers) +
                 " towers: give as many (BucketOptions::towers), or a multiple");
}

void check_end(const BatchRows& rows, const std::string& label, const FeedOptions& options,
               const Spec& batches) {
  const std::string end = name_of(options.end);
  std::string why = varying(rows);
  if (options.end == EpochEnd::pad && !why.empty())
    refuse_graph(end + " fills batches up, and those of " + label + " " + why +
                 ": use EpochEnd::drop or EpochEnd::stop");
  if (options.end != EpochEnd::wrap) return;
  if (why.empty() && rows.padded) why = "are filled up already";
  if (why.empty() && rows.fewer == BatchRows::Fewer::any)
    why = "may be short anywhere, not only at an epoch's end";
  if (why.empty() && !joinable(batches)) why = "have rows whose shapes may differ";
  if (why.empty()) return;
  refuse_graph(end + " completes what is left with rows of the next epoch, and batches of " +
               label + " " + why + ": use EpochEnd::drop or EpochEnd::stop");
}

}  // namespace

const char* name_of(FeedMode mode) noexcept {
  switch (mode) {
    case FeedMode::split:
      return "FeedMode::split";
    case FeedMode::per_tower:
      return "FeedMode::per_tower";
    case FeedMode::sharded:
      return "FeedMode::sharded";
  }
  return "unknown";
}

const char* name_of(EpochEnd end) noexcept {
  switch (end) {
    case EpochEnd::drop:
      return "EpochEnd::drop";
    case EpochEnd::pad:
      return "EpochEnd::pad";
    case EpochEnd::wrap:
      return "EpochEnd::wrap";
    case EpochEnd::stop:
      return "EpochEnd::stop";
  }
  return "unknown";
}

FeedRules feed_rules(const Plan& plan, const FeedOptions& options, std::int64_t towers) {
  if (!plan.rows()) refuse_what_is_no_batch(plan);
  const BatchRows& rows = *plan.rows();
  const std::string& label = plan.rows_stage().label;
  check_mode(rows, label, options);
  check_round(rows, label, options, towers);
  check_end(rows, label, options, plan.spec());
  FeedRules rules;
  rules.steps = {
      .rows = rows.divisible ? rows.full : 0,
      .full_but_last = varying(rows).empty() && !rows.padded && rows.fewer != BatchRows::Fewer::any,
      .joinable = joinable(plan.spec()),
      .divisible = rows.divisible,
      .padded = rows.padded,
      .kept = rows.kept};
  rules.room = rows.divisible ? rows.most : 0;
  if (options.mode != FeedMode::split) return rules;
  if (rows.full % towers != 0) {
    refuse_graph("a batch of " + std::to_string(rows.full) + " can't be divided among " +
                 std::to_string(towers) + " towers");
  }
  rules.steps.rows /= towers;
  rules.room /= towers;
  return rules;
}

}  // namespace penstock
