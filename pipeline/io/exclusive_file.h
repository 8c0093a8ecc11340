// A large file that one writer makes, and that is there in full or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/io/durable.h"

namespace penstock {

/// A DurableFile that refuses a second writer, and buffers what is appended. A writer that can go
/// on where a killed one stopped says so (`resumable`): then what is left behind in `path`.partial
/// is kept, by it as well, until it is committed. Used by one thread. All members throw
/// Error{unavailable | resource_exhausted | not_found} naming the path.
class ExclusiveFile {
 public:
  /// Throws Error{unavailable} if another writer has the file, and what DurableFile throws.
  explicit ExclusiveFile(const std::string& path, bool resumable = false);

  /// See DurableFile.
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const {
    return file_.read(offset, out);
  }
  void keep(std::uint64_t size);

  void append(std::span<const std::byte> bytes);
  /// Bytes that were kept and appended.
  std::uint64_t size() const noexcept { return size_; }
  void commit();

 private:
  static constexpr std::size_t kBuffer = 256 << 10;
  void flush();

  DurableFile file_;
  std::vector<std::byte> buffer_;  // appended, and not yet written
  std::uint64_t size_ = 0;
};

}  // namespace penstock
