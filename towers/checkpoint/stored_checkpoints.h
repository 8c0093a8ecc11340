// Checkpoints in an object store, which has no folders to lock and no renames.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/state_file.h>

#include "towers/checkpoint/run_folder.h"

namespace penstock::towers {

/// Checkpoints in a store. Each checkpoint is an object under a unique name. The object
/// FOLDER/checkpoints lists those that count. It is a state, and a conditional write replaces it
/// once a new checkpoint is there in full. So a run never sees part of a checkpoint. If two runs
/// use one folder, the one that writes its list later ends with an error. Used by one thread.
class StoredCheckpoints {
 public:
  /// Throws Error{invalid_argument} for a store without conditional writes, and Error{unavailable}.
  /// `to_read`: nothing is written.
  StoredCheckpoints(std::string folder, bool to_read);

  /// Returns the checkpoints, oldest first. A reader gets the current list at each call.
  std::vector<CheckpointFile> files();
  /// Adds a checkpoint. Once it has returned, the checkpoint counts. The checkpoints at `dropped`,
  /// and another one of the same step, no longer count and are removed. Throws Error{unavailable},
  /// also if another run has written its list since.
  void add(std::uint64_t step, std::string_view contents, std::span<const std::string> dropped);

 private:
  void load();
  void remove_unlisted();

  const std::string folder_;
  std::optional<StateFile> list_;  // only of a writer
  std::vector<CheckpointFile> files_;
  bool is_tidy_ = false;  // true once the objects of killed runs are removed
};

/// Reads a whole file or object. Throws Error{unavailable}.
std::string read_stored(const std::string& path);

}  // namespace penstock::towers
