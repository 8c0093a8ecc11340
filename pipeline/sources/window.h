// A moving view of a file, for scanning the headers of its records.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <penstock/file_system.h>

namespace penstock {

/// A view that follows the scan through a file. It reads whole blocks where headers lie close
/// together, and only the pages of the headers where they do not. Used by one thread.
class Window {
 public:
  static constexpr std::size_t kMost = 64 << 10;

  /// Makes an empty view. REQUIRES: `file` outlives it.
  explicit Window(File& file);

  /// Returns the `size` bytes at `offset`, fewer where the file ends. They are valid until the next
  /// call. Throws Error{unavailable} if the file can't be read. REQUIRES: size <= kMost.
  std::span<const std::byte> at(std::uint64_t offset, std::size_t size);
  /// Does the same past every cache.
  std::span<const std::byte> at_uncached(std::uint64_t offset, std::size_t size);
  std::uint64_t file_size() const noexcept { return file_.info().size; }

 private:
  std::span<const std::byte> slice(std::uint64_t offset, std::size_t size) const noexcept;
  void load(std::uint64_t offset, std::size_t size, bool uncached);

  File& file_;
  std::span<const std::byte> held_;  // the bytes from offset start_ on
  std::uint64_t start_ = 0;
  std::uint64_t last_ = 0;  // offset of the last call
  const std::unique_ptr<std::byte[]> memory_;
};

}  // namespace penstock
