// The saved position of a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/stats.h>

#include "pipeline/engine/fingerprint.h"
#include "pipeline/order/node.h"

namespace penstock {

/// What a state says of the whole run; `tree` is what its stages say.
///
/// As bytes: a line that names the format, the graph's fingerprint, numbers of variable length in
/// the order of the members, the tree, and a CRC32C of all of it.
struct SavedRun {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool ended = false;
  std::uint64_t errors = 0;  // those that skip passed over in this epoch aside
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  EpochStats in_epoch;
  std::string passed;  // Run::save_passed
  std::string tree;
  std::string records;  // Node::save_record, of all stages
  std::string reached;
  /// Shard stages that stood at another index or count when it was saved.
  std::vector<Fingerprint::OtherShard> other_shards;

  /// Throws Error{data_loss} for damaged bytes, and Error{invalid_argument} that names the stage or
  /// shard in which the graph at `root` differs from the one it was saved from.
  static SavedRun parse(std::string_view bytes, const Node& root);
  /// One state of those of all consumers of a run, for a consumer of another number of them.
  /// Throws Error{invalid_argument} if they don't belong together or the graph can't be redealt.
  static SavedRun merge(const std::vector<std::string>& states, const Plan& plan);

  std::string bytes(const Node& root) const;
  /// Asks all stages for their records, and gives them back.
  void save_records(const Node& root);
  void restore_records(const Node& root) const;
  /// Items of the topmost stage's input that were delivered in this epoch.
  std::uint64_t consumed() const;
};

}  // namespace penstock
