// A cache on disk for blocks of objects.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "pipeline/http/cache_room.h"

namespace penstock::http {

struct PinnedObject;

/// The key of an object's blocks: its URL without the parts that are signed anew for each run, its
/// version and its size.
class ObjectKey {
 public:
  explicit ObjectKey(const PinnedObject& object);
  BlockName block(std::uint64_t number) const noexcept;

 private:
  BlockName object_;
};

/// A folder of files, each with one block and its CRC. Processes of a machine may share it: a block
/// is renamed to its place only when it is whole. A damaged block counts as missing, and is
/// removed. The least recently used blocks make room for new ones. If the folder can't be written
/// to, this is warned of once, and nothing more is written. Thread-safe.
class BlockCache {
 public:
  static constexpr std::size_t kBlockBytes = 256 << 10;

  /// Does not touch the folder yet. If it holds more than `most_bytes`, the first read removes the
  /// excess.
  BlockCache(std::string folder, std::uint64_t most_bytes);

  /// Reads a block into `out`, which has the size of the block. Returns false if there is none;
  /// `out` is then undefined.
  bool read(const BlockName& name, std::span<std::byte> out) noexcept;
  /// Returns true if a block of `size` bytes, of which `wanted` are needed, should be fetched
  /// whole. While there is room, every block should. In a full cache, blocks that are needed by at
  /// least half should, and some of the others. So the cache's contents still change, but data
  /// larger than the cache are not fetched many times over.
  bool admits(std::uint64_t wanted, std::uint64_t size) noexcept;
  void write(const BlockName& name, std::span<const std::byte> bytes) noexcept;
  void remove(const BlockName& name) noexcept;

 private:
  void trim() noexcept;
  void put(const BlockName& name, std::span<const std::byte> bytes);
  void give_up(const char* why) noexcept;

  const std::string folder_;
  CacheRoom room_;
  std::once_flag trimmed_;
  std::atomic<bool> writes_{true};
  std::atomic<bool> full_{false};
  std::atomic<std::uint64_t> partial_{0};  // partly wanted blocks since the cache is full
};

}  // namespace penstock::http
