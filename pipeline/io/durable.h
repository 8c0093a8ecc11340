// Files that after a crash are there in full or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <penstock/durable_file.h>

#include "pipeline/io/partial_file.h"
#include "pipeline/io/posix.h"

namespace penstock {

/// Injects faults between DurableFile and the system in tests. It is called before each step
/// ("create", "write", "sync", "keep", "rename", "sync folder"), and returns 0 or the errno to fail
/// with.
using WriteFault = std::function<int(const char* step)>;

/// Returns the file that writing `path` replaces, which is the target of its links. Throws
/// Error{unavailable | not_found} naming `path` if that is something that a rename must not
/// replace: a folder, a device or a pipe.
std::string replaceable(const std::string& path);

/// A new file that replaces the one at `path`: the one way to do so in this code. The bytes go to a
/// file under its own name in the same folder, see `make_partial`. `commit` syncs it, renames it
/// over `path` and syncs the folder.
///
/// Without `commit`, or after any error, nothing is left behind, and an older file at `path` is as
/// it was. The one exception is an error of "sync folder": the new file is then complete, but its
/// name may not survive a crash. A failed sync is never retried, since the kernel may have dropped
/// the data. A symbolic link stays a link; its target is replaced and keeps its mode. The next
/// writer removes the file that a killed one left. Used by one thread.
///
///     DurableFile file(path);
///     file.append(header);
///     file.append(body);
///     file.commit();
class DurableFile {
 public:
  /// Makes the new file. All members throw Error{unavailable | resource_exhausted | not_found}
  /// naming the path. This one also throws the errors of `replaceable` and `make_partial`, and an
  /// error for a file without write permission. With `options.resumable`, appended bytes stay even
  /// without `commit`.
  explicit DurableFile(const std::string& path, WriteFault fault = {}, PartialOptions options = {});
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  /// Reads bytes that an earlier writer left behind, from `offset` on. Returns fewer bytes at their
  /// end. Call it before the first `append`.
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Keeps the first `size` of these bytes, so that `append` continues behind them, and drops the
  /// rest. Call it before the first `append`.
  void keep(std::uint64_t size);

  void append(std::span<const std::byte> bytes);
  /// Puts the file in its place. With `keep_as`, the older file at `path` first gets that name.
  void commit(const std::string& keep_as = {});

 private:
  /// Carries out one system step. Throws if it or the fault returns an error.
  void step(const char* what, const std::function<bool()>& act);

  const std::string path_;
  const WriteFault fault_;
  const bool resumable_;
  PartialFile partial_;  // its name is empty after the rename
};

}  // namespace penstock
