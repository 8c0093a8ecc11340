// Files through which the processes of a run communicate in its checkpoint folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/internal/posix.h>

namespace penstock::towers {

/// A checkpoint that was in the folder when it was listed; it may have been removed since.
struct CheckpointFile {
  std::uint64_t step = 0;  ///< from the file's name
  std::string path{};

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};
/// "FOLDER/step-000000000012.safetensors".
std::string checkpoint_path(const std::string& folder, std::uint64_t step);
/// Returns the checkpoints of a folder, oldest first. Returns none if the folder does not exist or
/// can't be read.
std::vector<CheckpointFile> checkpoint_files(const std::string& folder);

/// Marks the end of training, as the JSON file "finished". An evaluator that follows the run then
/// evaluates its last checkpoint, and ends.
struct Finished {
  std::uint64_t step = 0;       ///< number of the last update
  std::uint64_t epochs = 0;     ///< requested epochs
  std::uint64_t max_steps = 0;  ///< requested limit; 0: as many steps as the epochs have

  friend bool operator==(const Finished&, const Finished&) = default;
};
/// Writes the file durably. Throws as `write_durably` does.
void write_finished(const std::string& folder, const Finished& finished);
/// Removes the file when a run continues training. Throws Error{unavailable} if it can't be
/// removed.
void remove_finished(const std::string& folder);
/// Returns nothing while training has not ended. Throws Error{data_loss} for a malformed file.
std::optional<Finished> read_finished(const std::string& folder);

/// Opens the file in the folder whose lock a run that trains into it holds. Makes it if
/// `to_lock`; otherwise returns an invalid descriptor if it can't be opened. A file, since NFSv4
/// and EFS lock no folders. Throws Error{unavailable | resource_exhausted | not_found} if it can't
/// be made.
UniqueFd open_trainer_lock(const std::string& folder, bool to_lock);
/// Returns true if a process of this machine has locked the folder to train into it. Takes no lock
/// itself. After false, a process of another machine may still be training into it.
bool is_trained_into(const std::string& folder);

}  // namespace penstock::towers
