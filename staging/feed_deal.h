// The batches that each process makes where the towers of a feed are divided among processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/feed.h>
#include <penstock/plan.h>

#include "pipeline/core/batch_share.h"
#include "staging/feed_state.h"

namespace penstock {

/// The division of a feed's batches among processes, each of which has some of the towers.
struct FeedDeal {
  /// For each source, the part of its batches that this process makes. Empty: every process makes
  /// all.
  std::vector<BatchShare> sources{};
  /// The reason why every process makes all batches, naming the stage. Empty: each process makes
  /// the batches of its own towers.
  std::string everywhere{};
};

/// Divides the batches. `plans` are the datasets' plans, `rows` is the number of rows of a tower's
/// full batch, and `count` is the number of towers that this process has. `saved` is the position
/// from which the towers resume; null if they start from the beginning. Throws the errors of
/// Dataset::restore.
FeedDeal deal_feed(const std::vector<Plan>& plans, const FeedOptions& options, std::int64_t rows,
                   int count, const FeedState* saved);

/// Returns why the batches of this plan can't be told apart without making them, naming the stage.
/// Returns an empty string if they can: then the positions of its elements identify each full
/// batch.
std::string why_everywhere(const Plan& plan, OnError on_error);

}  // namespace penstock
