// States of runs, kept in files that survive a crash.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Writes `state` (what `Iterator::save` returned, or any bytes up to 256 MiB that hold it) to
/// `path` and keeps the one before as `path` + ".previous". When this returns, the state survives a
/// crash of the process and of the machine; whenever it is interrupted, `load_state` finds this
/// state or the one before, never a mixture. A symbolic link is followed; a folder, a device or a
/// pipe is refused. Throws Error{unavailable | resource_exhausted | not_found} naming the path;
/// what was there before can then still be loaded. Threads and processes may save to one path: each
/// waits up to 10 s for `path` + ".lock", which stays, and the error says which process holds it.
void save_state(const std::string& path, std::string_view state);

/// The newest whole state at `path`, or nothing if there never was one. A damaged newest state is
/// passed over with a warning through the log. Throws Error{data_loss} if all that is there is
/// damaged, Error{unavailable | not_found} if it can't be read or is no regular file.
std::optional<std::string> load_state(const std::string& path);

/// The file of one run's states, which no other run can write meanwhile. Thread-safe.
class StateFile {
 public:
  /// Throws Error{unavailable} naming the process that has the file and has not given it back after
  /// `patience`.
  explicit StateFile(const std::string& path, std::chrono::milliseconds patience = {});
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;
  ~StateFile();

  const std::string& path() const noexcept;
  /// Throws what `save` would if it can't write there: before there is a state.
  void check() const;
  /// See `save_state`. `fault`, for tests, is called before each step of the system's, and returns
  /// 0 or the errno to fail with.
  void save(std::string_view state, std::function<int(const char* step)> fault = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The files beside a state's that belong to it: the state before, and the lock.
std::vector<std::string> companions_of_state(const std::string& path);

}  // namespace penstock
