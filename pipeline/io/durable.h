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

/// Stands between DurableFile and the system in tests: called before each step ("create", "write",
/// "sync", "keep", "rename", "sync folder"), returns 0 or the errno to fail with.
using WriteFault = std::function<int(const char* step)>;

/// The file that writing `path` replaces: where its links lead. Throws Error{unavailable |
/// not_found} naming `path` for what a rename must not take the place of: a folder, a device, a
/// pipe.
std::string replaceable(const std::string& path);

/// The one way to write a file beside another: under a name of its own in the same folder, see
/// `make_partial`; `commit` syncs it, renames it over `path` and syncs the folder. Without
/// `commit`, or after any error, nothing is left behind and an older file at `path` is as it was
/// (an error of "sync folder" aside: the new file then is complete, its name may not survive a
/// crash). A failed sync is never retried: the kernel may have dropped the data. A symbolic link
/// stays one, its target is replaced, and keeps its mode. What a killed writer left is removed by
/// the next. Used by one thread.
///
///     DurableFile file(path);
///     file.append(header);
///     file.append(body);
///     file.commit();
class DurableFile {
 public:
  /// Throws Error{unavailable | resource_exhausted | not_found} naming the path, as do all members;
  /// also what `replaceable` and `make_partial` throw, and for a file that may not be written. With
  /// `options.resumable` what was appended stays without `commit`, too.
  explicit DurableFile(const std::string& path, WriteFault fault = {}, PartialOptions options = {});
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  /// Before the first `append`: bytes that were left behind, from `offset` on; fewer at their end.
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Before the first `append`: goes on behind `size` of these bytes; drops the rest.
  void keep(std::uint64_t size);

  void append(std::span<const std::byte> bytes);
  /// With `keep_as` the older file at `path` is not lost but gets that name, before the new one
  /// takes its place.
  void commit(const std::string& keep_as = {});

 private:
  /// Carries out one step of the system's; throws if it or the fault returns an error.
  void step(const char* what, const std::function<bool()>& act);

  const std::string path_;
  const WriteFault fault_;
  const bool resumable_;
  PartialFile partial_;  // its name is empty once it is renamed
};

}  // namespace penstock
