// Places where a test ends the process as a crash would.
#pragma once

namespace penstock {

#ifdef PENSTOCK_KILL_POINTS
static constexpr bool kKillPoints = true;
#else
static constexpr bool kKillPoints = false;
#endif

/// Defined by the crash harness (tests/crash), which compiles the files with kill points again for
/// itself; the library has none.
void kill_point_reached(const char* name);

/// Internal linkage: means one thing in the library and another in the harness.
static inline void kill_point([[maybe_unused]] const char* name) {
  if constexpr (kKillPoints) kill_point_reached(name);
}

}  // namespace penstock
