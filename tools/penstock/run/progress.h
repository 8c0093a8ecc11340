// How far a profiled run has come, kept in the file of --state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <penstock/state_file.h>

namespace penstock::tool {

/// What one process tells the one that goes on.
struct Progress {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;      ///< of the epoch, the next
  std::uint64_t batches = 0;    ///< of all epochs
  std::uint64_t elements = 0;   ///< of all epochs
  std::uint64_t digest = 0;     ///< of everything so far
  std::uint64_t log_bytes = 0;  ///< of the file of --digests
  std::string iterator;         ///< Iterator::save
};

/// Durably, see penstock::save_state.
void save_progress(StateFile& file, const Progress& progress);
/// Nothing if there is no such file. Throws Error{data_loss} if it is damaged or something else.
std::optional<Progress> load_progress(const std::string& path);

}  // namespace penstock::tool
