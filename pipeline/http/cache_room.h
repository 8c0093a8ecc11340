// The bytes that a folder of blocks takes, and the choice of blocks to remove.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/io/posix.h"

namespace penstock::http {

/// A block's name of 128 bits: the file "ab/cdef…" of the folder.
struct BlockName {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  std::string folder(const std::string& root) const;
  std::string path(const std::string& root) const;
  friend bool operator==(const BlockName&, const BlockName&) = default;
};

/// Counts the bytes of a folder. Every writer locks the folder, whose file "lock" holds the number
/// of bytes of all blocks. Blocks are counted before they are written, so the number is never too
/// small, even after a process was killed. It may be too large, so the folder is counted again
/// before a block is removed. Thread-safe.
class CacheRoom {
 public:
  CacheRoom(std::string folder, std::uint64_t most_bytes)
      : folder_(std::move(folder)), most_(most_bytes) {}

  /// Locks the folder for writing until the file is closed; makes the folder. Returns nothing if
  /// other writers hold the lock for longer than 0.1 s, since a block is not worth a longer wait.
  /// Throws Error{unavailable | resource_exhausted | not_found}, also where the file system has no
  /// locks.
  std::optional<UniqueFd> lock();
  /// Counts a block before it is written, and removes the least recently used blocks if there is no
  /// room for it. Returns false if there still is none. REQUIRES: `locked` is the result of `lock`.
  bool reserve(int locked, std::uint64_t bytes);
  /// Returns true if little room is left for further blocks. REQUIRES: called after `reserve`,
  /// under the same lock.
  bool nearly_full(int locked) const noexcept;
  /// Returns the path to which the holder of the lock writes.
  std::string scratch() const { return folder_ + "/writing"; }

 private:
  std::optional<std::uint64_t> told(int locked) const noexcept;
  void tell(int locked, std::uint64_t total) const;
  /// Counts the folder's blocks, and removes the least recently used ones if fewer than `needed`
  /// bytes are free. Returns the bytes of the remaining blocks.
  std::uint64_t make_room(std::uint64_t needed) const;

  const std::string folder_;
  const std::uint64_t most_;
};

}  // namespace penstock::http
