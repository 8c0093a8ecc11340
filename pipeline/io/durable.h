// Files that after a crash are there in full or not at all.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "pipeline/io/posix.h"

namespace penstock {

/// Stands between DurableFile and the system in tests: called before each step ("create", "write",
/// "sync", "keep", "rename", "sync folder"), returns 0 or the errno to fail with.
using WriteFault = std::function<int(const char* step)>;

/// The file that writing `path` replaces: where its symbolic links lead, which may be nothing yet.
/// Throws Error{unavailable | not_found} naming `path` for what a rename must not take the place
/// of: a folder, a device, a pipe.
std::string replaceable(const std::string& path);

/// Writes to a temporary file in the same folder; `commit` syncs it, renames it over `path` and
/// syncs the folder. Without `commit`, or after any error, nothing is left behind and an older file
/// at `path` is as it was (an error of "sync folder" aside: the new file then is complete, its name
/// may not survive a crash). A failed sync is never retried: the kernel may have dropped the data.
/// A symbolic link stays one, its target is replaced. Used by one thread.
///
///     DurableFile file(path);
///     file.append(header);
///     file.append(body);
///     file.commit();
class DurableFile {
 public:
  /// Throws Error{unavailable | resource_exhausted | not_found} naming the path, as do all members;
  /// also for what is no regular file, see `replaceable`.
  /// `temporary`: the temporary file's name, for a file with one writer at a time: what a killed
  /// writer left there is replaced. By default a name of its own.
  explicit DurableFile(const std::string& path, WriteFault fault = {}, std::string temporary = {});
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  void append(std::span<const std::byte> bytes);
  /// With `keep_as` the older file at `path` is not lost but gets that name, before the new one
  /// takes its place.
  void commit(const std::string& keep_as = {});

 private:
  /// Carries out one step of the system's; throws if it or the fault returns an error.
  void step(const char* what, const std::function<bool()>& act);

  std::string path_;
  std::string temporary_;  // empty once there is nothing to remove
  WriteFault fault_;
  UniqueFd fd_;
};

}  // namespace penstock
