// A large file that one writer makes, and that is there in full or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/io/posix.h"

namespace penstock {

/// Writes `path`.partial, which `commit` syncs and renames to `path`; without it nothing is left.
/// The system locks the partial file for its one writer and gives the lock back when that ends,
/// however it ends: so what a killed writer leaves behind stops nobody, and is overwritten.
/// A writer that can go on where a killed one stopped says so (`resumable`): then what is left
/// behind is kept, by it as well, until it is committed. Used by one thread. All members throw
/// Error{unavailable | resource_exhausted | not_found} naming the path.
class ExclusiveFile {
 public:
  /// Throws Error{unavailable} if another writer has the file, and what `replaceable` throws.
  explicit ExclusiveFile(const std::string& path, bool resumable = false);
  ExclusiveFile(const ExclusiveFile&) = delete;
  ExclusiveFile& operator=(const ExclusiveFile&) = delete;
  ~ExclusiveFile();

  /// Before the first `append`: bytes that were left behind, from `offset` on; fewer at their end.
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Before the first `append`: goes on behind `size` of these bytes; drops the rest.
  void keep(std::uint64_t size);

  void append(std::span<const std::byte> bytes);
  /// Bytes that were kept and appended.
  std::uint64_t size() const noexcept { return size_; }
  void commit();

 private:
  static constexpr std::size_t kBuffer = 256 << 10;
  void flush();

  std::string path_;
  std::string partial_;
  UniqueFd fd_;
  std::vector<std::byte> buffer_;  // appended, and not yet written
  std::uint64_t size_ = 0;
  bool resumable_ = false;
  bool committed_ = false;
};

}  // namespace penstock
