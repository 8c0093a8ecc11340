// Helpers that order and work stages share: places of errors, counters, programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "pipeline/stage/node.h"

namespace penstock {

/// Returns the same error with the missing parts of its place filled in, if there is memory for
/// that.
Status locate(Status status, const Provenance& where, const std::string& stage) noexcept;

/// Moves the items that `keep` accepts to the front. Returns how many they are. Empties the others
/// at once, because the next items may need the memory that these hold.
template <typename Keep>
std::size_t keep_items(std::span<ElementRef> items, const Keep& keep) {
  std::size_t kept = 0;
  for (ElementRef& item : items) {
    if (!keep(item)) {
      item = ElementRef();
    } else if (&items[kept++] != &item) {
      items[kept - 1] = std::move(item);
    }
  }
  return kept;
}

/// Returns the place of the record from which the item is made. For a tuple or batch this is the
/// first part's record.
Provenance origin_of(const ElementRef& item);
/// Returns an item that holds the error in place of `item`. The error names the origin of `item`.
ElementRef error_at(const ElementRef& item, Status status, const std::string& stage);

/// Returns the most bytes that a stage may keep. Elements are made in the rest of the budget.
/// Without that, each of them would wait for room in vain.
std::uint64_t most_kept(const RunServices& run) noexcept;
/// Returns why a stage can keep no more, for an error: that would be more than `most_kept`, or the
/// budget is full.
std::string why_not_kept(const RunServices& run, bool too_much);

/// Counters of a stage's work so far. Any thread writes them, and statistics read them.
class StageCounters {
 public:
  std::atomic<std::uint64_t> items{0};
  std::atomic<std::uint64_t> bytes{0};
  /// The part of `bytes` that is padding.
  std::atomic<std::uint64_t> padding_bytes{0};
  std::atomic<std::uint64_t> busy_ns{0};
  /// The part of busy_ns on threads that may wait.
  std::atomic<std::uint64_t> apart_ns{0};
  std::atomic<std::uint64_t> wait_input_ns{0};
  std::atomic<std::uint64_t> wait_output_ns{0};
  std::atomic<std::uint64_t> wait_memory_ns{0};
};

/// Marks this thread as one that may wait. Its busy time then counts towards `apart_ns` too.
void this_thread_may_wait() noexcept;
void add_counters(StageCounters* counters, std::uint64_t items, std::uint64_t bytes,
                  std::uint64_t busy_ns = 0) noexcept;

/// Returns the bytes of the values in the first `components`, or in all. For byte strings, these
/// are the bytes of their text.
std::uint64_t payload_bytes(const Element& element, std::size_t components = SIZE_MAX) noexcept;
/// Returns the same for every element of such a spec; -1 if elements differ in size.
std::int64_t fixed_payload_bytes(const Spec& spec);

/// Hands a program to the run, which keeps it for its whole life. In a nested dataset the items own
/// it instead.
ProgramPtr own_program(const OpenContext& context, const Node& node, const Program* parent,
                       std::unique_ptr<Program> program);

/// Does the same with the program with which the node's items begin. REQUIRES: the node has a first
/// program.
ProgramPtr own_first_program(const OpenContext& context, const Node& node);

/// Returns the items of `input` with the node's step appended. REQUIRES: the node has a step.
OrderIteratorPtr extend(OrderIteratorPtr input, const OpenContext& context, const Node& node);

}  // namespace penstock
