#include "cluster/net/blocks.h"

#include <algorithm>
#include <utility>

namespace penstock::cluster {

std::unique_ptr<std::byte[]> Blocks::Idle::find(std::size_t least, std::size_t& size) {
  const MutexLock lock(mutex);
  const auto found = blocks.lower_bound(least);
  if (found == blocks.end() || found->first / 2 > least) return nullptr;
  size = found->first;
  bytes -= size;
  std::unique_ptr<std::byte[]> block = std::move(found->second);
  blocks.erase(found);
  return block;
}

void Blocks::Idle::keep(std::unique_ptr<std::byte[]> block, std::size_t size) noexcept {
  try {
    const MutexLock lock(mutex);
    if (size > kLargest || bytes + size > kMostIdle) return;
    blocks.emplace(size, std::move(block));
    bytes += size;
  } catch (...) {  // the block is freed then
  }
}

Blocks::Block Blocks::take(std::size_t bytes) {
  constexpr std::size_t kStep = 4096;
  std::size_t size = std::max(bytes, std::size_t{1});
  if (size > kStep) size = (size + kStep - 1) / kStep * kStep;
  std::unique_ptr<std::byte[]> block = idle_->find(size, size);
  if (block == nullptr) block = std::make_unique_for_overwrite<std::byte[]>(size);
  std::byte* data = block.get();
  Block taken(data, [idle = idle_, size](std::byte* memory) {
    idle->keep(std::unique_ptr<std::byte[]>(memory), size);
  });
  static_cast<void>(block.release());
  return taken;
}

}  // namespace penstock::cluster
