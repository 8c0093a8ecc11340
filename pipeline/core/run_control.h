// The control of a run by the code that began it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

namespace penstock {

/// The control that the code which began a run keeps over it.
struct RunControl {
  /// See DeviceScans::scan_bytes. May change at any time, and counts for elements made from then
  /// on.
  std::atomic<std::uint64_t> scan_bytes{0};
  /// Goes back to a state that this run saved in the same epoch, and makes everything behind it
  /// again. Returns false if the run has been stopped. The run sets it, unless it cannot go back.
  /// Only for the thread that calls `Iterator::next`. Throws what Dataset::restore throws.
  std::function<bool(std::string_view)> go_back{};
};

}  // namespace penstock
