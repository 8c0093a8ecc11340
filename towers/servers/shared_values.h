// Values that can be read while they change.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

namespace penstock::towers {

/// Values with snapshots that need no copy. While a snapshot is held, changes go to other memory;
/// otherwise they are made in place. Used by one thread at a time; any thread may release a
/// snapshot.
class SharedValues {
 public:
  /// Makes `count` zeros.
  explicit SharedValues(std::size_t count);

  std::span<const float> read() const noexcept { return {now_->values.get(), count_}; }
  /// Returns the values for writing; valid until the next `write`.
  std::span<float> write();
  /// Returns a snapshot of the current values, which may outlive this object.
  std::shared_ptr<const float> share();

 private:
  struct Block {
    explicit Block(std::size_t count) : values(std::make_unique<float[]>(count)) {}
    std::unique_ptr<float[]> values;
    std::atomic<int> readers{0};
  };
  using BlockPtr = std::shared_ptr<Block>;
  static bool is_free(const BlockPtr& block) noexcept {
    return block->readers.load(std::memory_order_acquire) == 0;
  }

  const std::size_t count_;
  BlockPtr now_, spare_;
};

}  // namespace penstock::towers
