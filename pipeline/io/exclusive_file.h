// A large file with a single writer, which is there in full or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <penstock/file_system.h>

#include "pipeline/io/durable.h"

namespace penstock {

/// A DurableFile that refuses a second writer, and buffers appended bytes. A writer that can resume
/// the work of a killed one passes `resumable`. Then the bytes left in `path`.partial are kept
/// until the file is committed, even if this writer ends early, too. Used by one thread. All
/// members throw Error{unavailable | resource_exhausted | not_found} naming the path.
class ExclusiveFile final : public WritableFile {
 public:
  /// Throws Error{unavailable} if another writer has the file open, and the errors of DurableFile.
  explicit ExclusiveFile(const std::string& path, bool resumable = false);

  /// See DurableFile.
  std::size_t read(std::uint64_t offset, std::span<std::byte> out) const {
    return file_.read(offset, out);
  }
  void keep(std::uint64_t size);

  void append(std::span<const std::byte> bytes) override;
  /// Returns the number of bytes kept and appended.
  std::uint64_t size() const noexcept { return size_; }
  void commit() override;

 private:
  static constexpr std::size_t kBuffer = 256 << 10;
  void flush();

  DurableFile file_;
  std::vector<std::byte> buffer_;  // appended but not yet written
  std::uint64_t size_ = 0;
};

}  // namespace penstock
