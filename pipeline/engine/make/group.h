// Neighbouring items that are executed together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/engine/make/executor.h"

namespace penstock {

/// Neighbouring items on their way from the thread that pulls them, through the runner, to the
/// results. Each of these has exclusive access in turn, except to the members marked as guarded.
/// Groups are recycled.
struct Group {
  std::size_t count = 0;
  std::uint64_t first = 0;  ///< sequence number of the first item
  std::vector<ElementRef> items;
  std::vector<WorkItem> work;
  std::vector<Place> places;  ///< rows in batches; empty for single values
  /// For batches only: the items that failed, in order.
  std::vector<std::pair<std::size_t, Status>> failures;

  // For the execution:
  std::optional<GroupContext> context;
  /// All items are records with one program, so the first item can stand for all.
  bool alike = false;
  bool reads = false;  ///< some item's source waits for a device
  /// Each item is a byte string that is read straight into its place, except for `outliers`.
  bool textual = false;
  std::uint64_t input_bytes = 0;  ///< what the values that the items hold count
  std::uint64_t read_bytes = 0;   ///< bytes that reading the items will take, as far as known
  std::vector<Outlier> outliers;
  /// A part that one of several threads reads.
  struct Part {
    Part(const GroupContext::Services& services, std::uint64_t key) : context(services, key) {}
    GroupContext context;
    std::uint64_t bytes = 0;  ///< bytes that reading the part takes
    std::vector<Outlier> outliers;
  };
  std::deque<Part> parts;
  std::atomic<std::size_t> unread{0};  ///< parts not read yet
  std::atomic<bool> lost{false};       ///< a part could not be started

  // Guarded by the segment's mutex:
  bool done = false;
  bool ready = false;     ///< needs nothing but a thread
  bool blocked = false;   ///< waits to be made again
  std::size_t taken = 0;  ///< delivered results, for single values
  Group* next = nullptr;  ///< in a list of groups whose results were taken

  std::span<const ElementRef> samples() const { return {items.data(), alike ? 1 : count}; }
  std::span<const ElementRef> all_items() const { return {items.data(), count}; }
  std::span<WorkItem> all_work() { return {work.data(), count}; }
  /// Adds an item to `failures`, unless it is there.
  void fail(std::size_t item, Status status);
  void drop_results() noexcept;
  /// Drops all results and everything that the group holds. It keeps its places.
  void start_over() noexcept;
  /// Drops the items and what they needed, but neither results in a batch nor failures.
  void let_go() noexcept;
};

/// Memory for items that the groups of one epoch leave to those of the next. Thread-safe.
class SpareItems {
 public:
  /// Returns an empty vector if no memory is left.
  std::vector<ElementRef> take() noexcept EXCLUDES(mutex_);
  void give(std::vector<ElementRef> items) noexcept EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<std::vector<ElementRef>> items_ GUARDED_BY(mutex_);
};

/// A pool of groups to be reused. Not synchronised.
class GroupPool {
 public:
  GroupPool() = default;
  ~GroupPool();
  GroupPool(const GroupPool&) = delete;
  GroupPool& operator=(const GroupPool&) = delete;

  /// Takes memory for items from `spare`, and returns it there in the end. `spare` must outlive the
  /// pool.
  void share(SpareItems& spare) noexcept { spare_ = &spare; }
  Group& take();
  /// Takes a group back. REQUIRES: the group came from this pool, and has let go of its items.
  void give(Group& group) noexcept;

 private:
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> free_;  // has capacity for all groups
  SpareItems* spare_ = nullptr;
};

}  // namespace penstock
