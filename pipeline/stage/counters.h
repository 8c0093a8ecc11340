// Counters of a stage's work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <penstock/element.h>
#include <penstock/spec.h>

namespace penstock {

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

/// The elements of a stage that have had their turn.
struct Passed {
  std::uint64_t seen = 0;
  std::uint64_t bad = 0;       ///< those of them that failed
  std::uint64_t left_out = 0;  ///< errors of others that the stage left out

  std::uint64_t errors() const noexcept { return bad + left_out; }
  Passed& operator+=(const Passed& more) noexcept {
    seen += more.seen;
    bad += more.bad;
    left_out += more.left_out;
    return *this;
  }
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

}  // namespace penstock
