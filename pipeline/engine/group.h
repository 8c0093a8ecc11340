// Neighbouring items that are carried out together.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/engine/executor.h"

namespace penstock {

class Slot;

/// How many elements to hand over at once: as many as take a few milliseconds, so that hand-overs
/// cost little and nobody waits long for a group, and no more than fit in a group's share of the
/// memory. Learns from what groups took. Thread-safe.
class GroupSizer {
 public:
  GroupSizer(std::size_t most, std::uint64_t share) : most_(most), share_(share) {}
  std::size_t size() const noexcept {
    return std::min(by_time_.load(std::memory_order_relaxed),
                    by_bytes_.load(std::memory_order_relaxed));
  }
  std::size_t most() const noexcept { return most_; }
  void learn(std::size_t count, std::chrono::nanoseconds took, std::uint64_t bytes) noexcept;

 private:
  static constexpr double kTargetNs = 5e6;
  const std::size_t most_;
  const std::uint64_t share_;  // bytes
  std::atomic<std::size_t> by_time_{1};
  std::atomic<std::size_t> by_bytes_{SIZE_MAX};
};

/// Neighbours on their way through the arena. Recycled.
struct Group {
  /// Where in the edge's batches a result goes.
  struct Place {
    Slot* slot = nullptr;
    std::uint64_t batch = 0;
    std::uint32_t row = 0;
  };

  std::size_t count = 0;
  std::vector<Item> items;
  std::vector<WorkItem> work;
  std::vector<std::pair<std::size_t, Status>>
      failures;  // in batches only: which items failed, in order

  std::vector<Row> rows;      // in batches only
  std::vector<Place> places;  // in batches only
  std::uint64_t first = 0;    // sequence number of the first item
  std::optional<GroupContext> context;
  std::size_t redone = 0;  // items of a starved group that were made since
  bool done = false;       // guarded by the edge's mutex
  bool starved = false;    // guarded by the edge's mutex
  bool ready = false;      // guarded by the edge's mutex: read, so that it waits for nothing

  std::span<const Item> all_items() const { return {items.data(), count}; }
  std::span<WorkItem> all_work() { return {work.data(), count}; }
  std::span<const Row> all_rows() const { return {rows.data(), rows.empty() ? 0 : count}; }
};

}  // namespace penstock
