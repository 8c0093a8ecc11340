// Small things that order and work stages share: addresses of errors, counters, programs.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "pipeline/order/node.h"

namespace penstock {

/// The same error with what was not known of its address filled in, if there is memory for that.
Status locate(Status status, const Provenance& where, const std::string& stage) noexcept;

/// Where the record lies that the item is made of; of a tuple or batch, its first.
Provenance origin_of(const ElementRef& item);
/// The same error in the item's place.
ElementRef error_at(const ElementRef& item, Status status, const std::string& stage);

/// What a stage has done so far. Written by any thread, read by statistics.
class StageCounters {
 public:
  std::atomic<std::uint64_t> items{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> busy_ns{0};
  std::atomic<std::uint64_t> wait_input_ns{0};
  std::atomic<std::uint64_t> wait_output_ns{0};
  std::atomic<std::uint64_t> wait_memory_ns{0};
};

void add_counters(StageCounters* counters, std::uint64_t items, std::uint64_t bytes,
                  std::uint64_t busy_ns = 0) noexcept;

/// Bytes of values in all components; for byte strings, of their text.
std::uint64_t payload_bytes(const Element& element) noexcept;
/// The same for every element of such a spec; -1 if they differ.
std::int64_t fixed_payload_bytes(const Spec& spec);

/// Hands a program to the run for its whole life or, in a nested dataset, to its items.
ProgramPtr own_program(const OpenContext& context, const Node& node, const Program* parent,
                       std::unique_ptr<Program> program);

/// The items of `input` with one more op.
OrderIteratorPtr extend(OrderIteratorPtr input, const OpenContext& context, const Node& node,
                        Program::Step step);

}  // namespace penstock
