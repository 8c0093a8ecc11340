// Places where a test ends the process as a crash would.
#pragma once

#include <atomic>

namespace penstock {

/// What is called at a kill point, on whatever thread is there, with the point's name. It may end
/// the process; it must not throw, nor call the library.
using KillPointObserver = void (*)(const char* name);

/// Null but in the crash harness (tests/crash), which sets it before a run begins.
inline std::atomic<KillPointObserver> kill_point_observer{nullptr};

/// A moment at which the process may end without a trace, and what was promised must hold. One load
/// and a branch, so for places that are met once for a group, a batch or a file, not an element.
inline void kill_point(const char* name) {
  if (const KillPointObserver observer = kill_point_observer.load(std::memory_order_acquire))
    observer(name);
}

}  // namespace penstock
