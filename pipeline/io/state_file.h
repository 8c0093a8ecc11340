// The file that a state is kept in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/state_file.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/io/durable.h"
#include "pipeline/io/file_lock.h"

namespace penstock {

// A state file is the 16 bytes "penstock state 1", the length of the state (u64), the CRC32C of
// that length and the state (u32), both little endian, and the state.

inline constexpr std::uint64_t kMaxStateBytes = 256ULL << 20;

/// The file of one run's states, which no other run can write meanwhile. Thread-safe.
class StateFile {
 public:
  /// Throws Error{unavailable} naming the process that has the file and has not given it back after
  /// `patience`.
  explicit StateFile(const std::string& path, std::chrono::milliseconds patience = {});

  const std::string& path() const noexcept { return path_; }
  /// Throws what `save` would if it can't write there: before there is a state.
  void check() const;
  /// See `save_state`.
  void save(std::string_view state, WriteFault fault = {}) EXCLUDES(mutex_);

 private:
  const std::string path_;  // where links lead: all is beside that, which a rename can't leave
  const FileLock lock_;
  Mutex mutex_;
};

/// The files beside a state's that belong to it.
std::vector<std::string> companions_of_state(const std::string& path);
/// The state in the bytes of a state file. Throws Error{data_loss} if they are not whole.
std::string parse_state_file(std::string_view bytes);

}  // namespace penstock
