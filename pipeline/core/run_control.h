// The control of a run by the code that began it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace penstock {

struct SavedRun;

/// The control that the code which began a run keeps over it.
struct RunControl {
  /// See DeviceScans::scan_bytes. May change at any time, and counts for elements made from then
  /// on.
  std::atomic<std::uint64_t> scan_bytes{0};
  /// Returns the position behind what `Iterator::next` has returned. It is cheap, unlike a state
  /// that is saved. This function and the next one are for the thread that calls `Iterator::next`.
  /// The run sets them, unless it cannot go back.
  std::function<std::shared_ptr<const SavedRun>()> mark{};
  /// Goes back to a position in the same epoch, and makes everything behind it again. Returns false
  /// if the run has been stopped. Throws what Dataset::restore throws.
  std::function<bool(const SavedRun&)> go_back{};
};

}  // namespace penstock
