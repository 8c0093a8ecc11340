// Places where a test ends the process as a crash would.
#pragma once

#include <atomic>

namespace penstock {

/// A function called at each kill point, on the thread that reaches it, with the point's name. It
/// may end the process. It must neither throw nor call the library.
using KillPointObserver = void (*)(const char* name);

/// Null except in the crash harness (tests/crash), which sets it before a run begins.
inline std::atomic<KillPointObserver> kill_point_observer{nullptr};

/// Marks a moment at which the process may end abruptly and all promises must still hold. Costs one
/// load and a branch, so use it at places reached once for each group, batch or file, not for each
/// element.
inline void kill_point(const char* name) {
  if (const KillPointObserver observer = kill_point_observer.load(std::memory_order_acquire))
    observer(name);
}

}  // namespace penstock
