// The saved position of a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/stats.h>

#include "pipeline/stage/fingerprint.h"
#include "pipeline/stage/node.h"

namespace penstock {

/// The contents of a state. `tree` holds the positions of the stages, the other members describe
/// the whole run.
///
/// As bytes it begins with a line that names the format, and the graph's fingerprint. Numbers of
/// variable length in the order of the members, the tree, and a CRC32C of everything follow.
struct SavedRun {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool ended = false;
  std::uint64_t errors = 0;  // without those that `skip` skipped in this epoch
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  EpochStats in_epoch;
  std::string passed;  // written by StageServices::save_passed
  std::string tree;
  std::string records;  // written by Node::save_record of all stages
  std::string reached;
  /// Shard stages that had another index or count when the state was saved.
  std::vector<Fingerprint::OtherShard> other_shards;

  /// Throws Error{data_loss} for damaged bytes, and Error{invalid_argument} for another version's
  /// bytes, or naming the stage or the files in which `graph` differs from the saved one.
  static SavedRun parse(std::string_view bytes, const Fingerprint& graph);
  /// Merges the states of all consumers of a run into one state, for a different number of
  /// consumers. Throws Error{invalid_argument} if they do not belong together, or if the graph does
  /// not allow another number.
  static SavedRun merge(const std::vector<std::string>& states, const Plan& plan, bool trust_data);

  std::string bytes(const Fingerprint& graph) const;
  /// Get the records from all stages, and return them to the stages.
  void save_records(const Node& root, bool exact);
  void restore_records(const Node& root) const;
  /// Returns how many items of the topmost stage's input were delivered in this epoch.
  std::uint64_t consumed() const;
};

}  // namespace penstock
