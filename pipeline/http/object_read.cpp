#include "pipeline/http/object_read.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "pipeline/http/block_cache.h"

namespace penstock::http {
namespace {

constexpr std::size_t kBlock = BlockCache::kBlockBytes;
/// Limit for the memory of blocks that are fetched whole though only a part is wanted, for all
/// readers together. Beyond it, parts are read and not cached.
constexpr std::size_t kMostBuffered = 64 << 20;

/// Memory for one block, within the limit of all readers.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  /// Returns null if the limit is reached.
  static BlockBuffer make() {
    BlockBuffer made;
    if (bytes().fetch_add(kBlock) + kBlock <= kMostBuffered) {
      made.counted_ = true;
      made.memory_ = std::make_unique_for_overwrite<std::byte[]>(kBlock);
    } else {
      bytes() -= kBlock;
    }
    return made;
  }
  BlockBuffer(BlockBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), counted_(std::exchange(other.counted_, false)) {}
  BlockBuffer& operator=(BlockBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~BlockBuffer() {
    if (counted_) bytes() -= kBlock;
  }
  std::byte* data() const noexcept { return memory_.get(); }

 private:
  static std::atomic<std::size_t>& bytes() noexcept {
    static std::atomic<std::size_t> bytes{0};
    return bytes;
  }

  std::unique_ptr<std::byte[]> memory_;
  bool counted_ = false;
};

/// One object's parts, block by block.
class CachedRead {
 public:
  CachedRead(BlockCache& cache, const PinnedObject& object, std::span<const RangePart> parts)
      : cache_(cache), key_(object), size_(object.info.size) {
    for (const RangePart& part : parts) cut(part);
    std::sort(slices_.begin(), slices_.end(),
              [](const RangePart& a, const RangePart& b) { return a.offset < b.offset; });
  }

  void drop() {
    for_each_block(
        [&](std::uint64_t number, std::span<RangePart>) { cache_.remove(key_.block(number)); });
  }

  /// Copies the bytes that the cache has. Prepares reads of the others: whole blocks that will be
  /// cached, and parts of other blocks. `found` counts the bytes from the cache.
  std::vector<RangePart> lacking(std::uint64_t& found) {
    std::vector<RangePart> parts;
    for_each_block([&](std::uint64_t number, std::span<RangePart> slices) {
      const std::uint64_t first = number * kBlock;
      const std::size_t bytes = std::min<std::uint64_t>(kBlock, size_ - first);
      std::uint64_t wanted = 0;
      for (const RangePart& slice : slices) wanted += slice.size;
      Kept block{number, {first, bytes, nullptr}, {}, {}};
      const bool in_place = slices.size() == 1 && slices[0].size == bytes;
      if (in_place) {
        block.whole.out = slices[0].out;
      } else {
        if (spare_.data() == nullptr) spare_ = BlockBuffer::make();
        block.whole.out = spare_.data();
        block.slices = slices;
      }
      if (block.whole.out != nullptr && cache_.read(key_.block(number), block.bytes())) {
        block.copy(block.whole.offset, block.whole.offset + bytes);
        found += wanted;
      } else if (block.whole.out != nullptr && cache_.admits(wanted, bytes)) {
        if (!in_place) block.buffer = std::move(spare_);
        parts.push_back(block.whole);
        blocks_.push_back(std::move(block));
      } else {
        parts.insert(parts.end(), slices.begin(), slices.end());
      }
    });
    spare_ = {};
    return parts;
  }

  /// Takes note that the requests have ended, well or not.
  void arrived(std::span<const RangeGet> gets) {
    for (Kept& block : blocks_) {
      bool whole = true;
      const std::uint64_t end = block.whole.offset + block.whole.size;
      for (const RangeGet& get : gets) {
        const std::uint64_t from = std::max(get.first(), block.whole.offset);
        const std::uint64_t to = std::min(get.end(), end);
        if (from >= to) continue;
        if (get.status.ok()) block.copy(from, to);
        if (!get.status.ok()) whole = false;
      }
      if (whole) cache_.write(key_.block(block.number), block.bytes());
      block.buffer = {};
    }
  }

 private:
  /// A block that will be cached.
  struct Kept {
    std::uint64_t number = 0;
    RangePart whole;
    std::span<const RangePart> slices;  // to be copied from it; none where it lies in its place
    BlockBuffer buffer;

    std::span<std::byte> bytes() const noexcept { return {whole.out, whole.size}; }
    void copy(std::uint64_t first, std::uint64_t end) const noexcept {
      for (const RangePart& slice : slices) {
        const std::uint64_t from = std::max(first, slice.offset);
        const std::uint64_t to = std::min<std::uint64_t>(end, slice.offset + slice.size);
        if (from < to)
          std::memcpy(slice.out + (from - slice.offset), whole.out + (from - whole.offset),
                      to - from);
      }
    }
  };

  void cut(RangePart part) {
    while (part.size > 0) {
      const std::size_t n = std::min<std::uint64_t>(part.size, kBlock - part.offset % kBlock);
      slices_.push_back({part.offset, n, part.out});
      part = {part.offset + n, part.size - n, part.out + n};
    }
  }

  template <typename Work>
  void for_each_block(const Work& work) {
    for (std::span<RangePart> rest = slices_; !rest.empty();) {
      const std::uint64_t number = rest[0].offset / kBlock;
      std::size_t n = 1;
      while (n < rest.size() && rest[n].offset / kBlock == number) ++n;
      work(number, rest.first(n));
      rest = rest.subspan(n);
    }
  }

  BlockCache& cache_;
  const ObjectKey key_;
  const std::uint64_t size_;
  std::vector<RangePart> slices_;  // of parts, each within a block
  std::vector<Kept> blocks_;
  BlockBuffer spare_;
};

std::uint64_t bytes_of(std::span<const RangePart> parts) noexcept {
  std::uint64_t bytes = 0;
  for (const RangePart& part : parts) bytes += part.size;
  return bytes;
}

}  // namespace

std::vector<RangeGet> gets_of(std::vector<RangePart> parts, std::uint64_t gap, std::size_t most) {
  std::sort(parts.begin(), parts.end(),
            [](const RangePart& a, const RangePart& b) { return a.offset < b.offset; });
  std::vector<RangeGet> gets;
  std::uint64_t wanted = 0;  // of the last one
  std::uint64_t between = 0;
  for (RangePart part : parts) {
    while (part.size > 0) {
      if (!gets.empty()) {
        RangeGet& last = gets.back();
        const bool behind = part.offset >= last.end();
        const std::uint64_t hole = behind ? part.offset - last.end() : 0;
        const bool near = behind && hole <= gap && (between + hole) * 4 <= wanted + part.size;
        const std::uint64_t taken = last.end() - last.first() + hole;
        if (near && taken < most) {
          const std::size_t n = std::min<std::uint64_t>(part.size, most - taken);
          last.parts.push_back({part.offset, n, part.out});
          wanted += n;
          between += hole;
          part = {part.offset + n, part.size - n, part.out + n};
          continue;
        }
      }
      const std::size_t n = std::min(part.size, most);
      gets.emplace_back().parts.push_back({part.offset, n, part.out});
      wanted = n;
      between = 0;
      part = {part.offset + n, part.size - n, part.out + n};
    }
  }
  return gets;
}

void read_objects(HttpClient& client, std::span<ObjectRead> reads, bool fresh) {
  const std::uint64_t gap = client.pace().bytes_of_a_request();
  const std::size_t most = std::max<std::size_t>(1, client.options().most_request_bytes);
  std::vector<std::unique_ptr<CachedRead>> cached(reads.size());
  std::vector<RangeGet> gets;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    ObjectRead& read = reads[i];
    const std::uint64_t wanted = bytes_of(read.parts);
    std::uint64_t found = 0;
    if (BlockCache* const cache = client.cache_of(*read.object)) {
      auto own = std::make_unique<CachedRead>(*cache, *read.object, read.parts);
      if (fresh) {
        own->drop();
      } else {
        read.parts = own->lacking(found);
        cached[i] = std::move(own);
      }
    }
    client.pace().needed(wanted - found, found);
    const std::size_t at_once =
        read.object->rangeless ? std::numeric_limits<std::size_t>::max() : most;
    for (RangeGet& get : gets_of(std::move(read.parts), gap, at_once)) {
      get.object = read.object;
      gets.push_back(std::move(get));
    }
    ends.push_back(gets.size());
  }
  if (!gets.empty()) client.get(gets, fresh);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const auto first = gets.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = gets.begin() + static_cast<std::ptrdiff_t>(ends[i]);
    if (cached[i] != nullptr)
      cached[i]->arrived(std::span<const RangeGet>(gets).subspan(begin, ends[i] - begin));
    reads[i].gets.assign(std::make_move_iterator(first), std::make_move_iterator(last));
    begin = ends[i];
  }
}

}  // namespace penstock::http
