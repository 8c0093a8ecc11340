// Reusable memory for values that are received or sent.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include <penstock/internal/thread_annotations.h>

namespace penstock::cluster {

/// A pool of memory blocks for reuse, since fresh memory costs more than the copy into it.
/// Thread-safe. A block may outlive the pool.
class Blocks {
 public:
  using Block = std::shared_ptr<std::byte[]>;

  Blocks() : idle_(std::make_shared<Idle>()) {}
  /// Returns a block of uninitialised bytes, aligned for any value.
  Block take(std::size_t bytes);

 private:
  /// `kMostIdle` limits the bytes that are kept. Larger blocks than `kLargest` are rare, and are
  /// freed at once.
  static constexpr std::size_t kMostIdle = std::size_t{512} << 20;
  static constexpr std::size_t kLargest = std::size_t{128} << 20;

  struct Idle {
    Mutex mutex;
    std::multimap<std::size_t, std::unique_ptr<std::byte[]>> blocks GUARDED_BY(mutex);
    std::size_t bytes GUARDED_BY(mutex) = 0;

    std::unique_ptr<std::byte[]> find(std::size_t least, std::size_t& size);
    void keep(std::unique_ptr<std::byte[]> block, std::size_t size) noexcept;
  };

  const std::shared_ptr<Idle> idle_;
};

}  // namespace penstock::cluster
