// Memory for many small things that go together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <penstock/source.h>

namespace penstock {

/// Gives out parts of blocks that the budget is charged for. A block has an eighth of the bytes so
/// far, and at least 1 KiB, so that little stays unused. It has at most 1 MiB, or as much as one
/// part takes: the heap's own data around that is less than a hundredth. Used by one thread.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 16;

  struct Block {
    BufferPtr buffer;
    std::size_t used = 0;  // bytes from the beginning
  };

  explicit Arena(ReadContext& memory) : memory_(memory) {}

  static constexpr std::size_t aligned(std::size_t bytes) noexcept {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Returns memory behind the last part. Waits for room in the budget. Throws
  /// Error{resource_exhausted}. REQUIRES: a multiple of kAlignment.
  std::byte* take(std::size_t bytes) {
    if (blocks_.empty() || blocks_.back().buffer->size() - blocks_.back().used < bytes) {
      constexpr std::uint64_t kLeast = 1 << 10;
      constexpr std::uint64_t kMost = 1 << 20;
      const std::uint64_t usual = std::clamp(used_ / 8, kLeast, kMost);
      blocks_.push_back({memory_.allocate(std::max<std::uint64_t>(bytes, usual))});
    }
    Block& block = blocks_.back();
    std::byte* const part = block.buffer->data() + block.used;
    block.used += bytes;
    used_ += bytes;
    return part;
  }

  const std::vector<Block>& blocks() const noexcept { return blocks_; }

 private:
  ReadContext& memory_;
  std::vector<Block> blocks_;
  std::uint64_t used_ = 0;
};

}  // namespace penstock
