// Helpers that stages share: places of errors, memory, programs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "pipeline/stage/run_services.h"

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

/// Returns why a stage can keep no more, for an error: that would be more than
/// `RunServices::most_kept`, or the budget is full.
std::string why_not_kept(const RunServices& run, bool too_much);

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
