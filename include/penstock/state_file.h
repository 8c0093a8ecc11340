// Files for the states of runs, which survive a crash.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Writes `state` to `path`, and keeps the previous one as `path` + ".previous". `state` is a
/// result of `Iterator::save`, or any bytes up to 256 MiB that hold it. When this returns, the
/// state survives a crash of the process and of the machine. Whenever it is interrupted,
/// `load_state` finds this state or the one before, never a mixture.
///
/// A symbolic link is followed; a folder, a device or a pipe is refused. Throws Error{unavailable |
/// resource_exhausted | not_found} naming the path; the previous state can then still be loaded.
/// Threads and processes may save to one path. Each waits up to 10 s for `path` + ".lock", which
/// stays. The error names the process that holds it.
///
/// An object of s3:// or gs:// has no lock and no previous state. It is written in full or not at
/// all, by conditional writes: a process that has not read the current state can't replace it.
/// Throws Error{invalid_argument} for a store without conditional writes.
void save_state(const std::string& path, std::string_view state);

/// Returns the newest whole state at `path`, or nothing if there never was one. A damaged newest
/// state is skipped, with a warning in the log. Throws Error{data_loss} if all states there are
/// damaged. Throws Error{unavailable | not_found} if the file can't be read or is not a regular
/// file.
std::optional<std::string> load_state(const std::string& path);

/// The file of one run's states. While a local file is open here, no other run can write it. An
/// object in a store may be open in two runs: the first run that saves keeps it, and `save` of the
/// other one throws Error{unavailable}. Thread-safe.
class StateFile {
 public:
  /// Locks the file. Throws Error{unavailable} naming the process that holds it and has not
  /// released it after `patience`, and Error{invalid_argument} for http:// and https://.
  explicit StateFile(const std::string& path, std::chrono::milliseconds patience = {});
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;
  ~StateFile();

  /// Returns the path.
  const std::string& path() const noexcept;
  /// Throws the error that `save` would throw if it can't write there, before there is a state.
  void check() const;
  /// Writes a state; see `save_state`. `fault` is for tests: it is called before each system step,
  /// and returns 0 or the errno to fail with.
  void save(std::string_view state, std::function<int(const char* step)> fault = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns the files next to a state's file that belong to it: the previous state and the lock.
/// Objects have none.
std::vector<std::string> companions_of_state(const std::string& path);

}  // namespace penstock
