// Neighbouring items that are carried out together.
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

#include "pipeline/engine/executor.h"

namespace penstock {

/// Neighbours on their way from the thread that pulls them, through whoever makes them, to their
/// results: each of these has it to itself in turn, but for what is said to be guarded. Recycled.
struct Group {
  std::size_t count = 0;
  std::uint64_t first = 0;  ///< sequence number of the first item
  std::vector<ElementRef> items;
  std::vector<WorkItem> work;
  std::vector<Place> places;  ///< in batches only
  /// In batches only: which items failed, in order.
  std::vector<std::pair<std::size_t, Status>> failures;

  // What carries it out:
  std::optional<GroupContext> context;
  bool alike = false;  ///< all are records with one program: the first tells what holds for all
  bool reads = false;  ///< some source waits for a device
  bool textual =
      false;  ///< byte strings that are read straight to their places, but for `outliers`
  std::uint64_t read_bytes = 0;  ///< that reading the items will take, as far as is known
  std::vector<Outlier> outliers;
  /// Where several threads read a part each.
  struct Part {
    Part(Memory& memory, std::uint64_t key, Retry& retry, const std::atomic<bool>& cancelled)
        : context(memory, key, retry, cancelled) {}
    GroupContext context;
    std::uint64_t bytes = 0;  ///< that reading it takes
    std::vector<Outlier> outliers;
  };
  std::deque<Part> parts;
  std::atomic<std::size_t> unread{0};  ///< parts
  std::atomic<bool> lost{false};       ///< a part could not be tried
  /// Of a starved group: what the element that is made next takes in all, if it is a codec that
  /// found no room; else 0.
  std::uint64_t starved_codecs = 0;

  // Guarded by the segment's mutex:
  bool done = false;
  bool ready = false;      ///< waits for nothing but a thread
  bool starved = false;    ///< waits to be made again, one by one
  bool redoing = false;    ///< that is going on
  std::size_t redone = 0;  ///< items of a starved group that are made, from the first on
  std::size_t taken = 0;   ///< results that were delivered, where they are single values

  /// Results that are there, of single values: guarded by the segment's mutex.
  std::size_t made() const { return done ? count : redone; }
  std::span<const ElementRef> samples() const { return {items.data(), alike ? 1 : count}; }
  std::span<const ElementRef> all_items() const { return {items.data(), count}; }
  std::span<WorkItem> all_work() { return {work.data(), count}; }
  /// Lets go of results from the item `from` on.
  void drop_results(std::size_t from) noexcept;
  /// Lets go of all that was made of it and all that it holds; its places stay its own.
  void start_over() noexcept;
};

/// Groups to be used again. Not synchronised.
class GroupPool {
 public:
  /// With room for `most` items.
  Group& take(std::size_t most);
  /// Takes a group back, which holds nothing then. REQUIRES: it came from here.
  void give(Group& group) noexcept;

 private:
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> free_;  // with room for all
};

}  // namespace penstock
