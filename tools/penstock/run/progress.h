// The progress of a profiled run, kept in the file that `--state` names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <penstock/state_file.h>

namespace penstock::tool {

/// The facts that a process saves for the process that resumes the run.
struct Progress {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;      ///< the next one, within the epoch
  std::uint64_t batches = 0;    ///< of all epochs so far
  std::uint64_t elements = 0;   ///< of all epochs so far
  std::uint64_t digest = 0;     ///< of all batches so far
  std::uint64_t log_bytes = 0;  ///< the size of the file of --digests
  std::string iterator;         ///< from Iterator::save
  /// True: another program saved `iterator`, and nothing else is known.
  bool foreign = false;
};

/// Saves the progress durably, see penstock::save_state.
void save_progress(StateFile& file, const Progress& progress);
/// Returns nothing if there is no such file. The file may also hold what a program of a user saved:
/// the bytes of Iterator::save. Throws Error{data_loss} if it is damaged or not a state.
std::optional<Progress> load_progress(const std::string& path);

}  // namespace penstock::tool
