// How many reads a thread has asked files for.
#pragma once

#include <cstdint>

namespace penstock {

/// Of this thread so far; sources add to it, so that the engine learns how many reads a group of
/// records takes and how long each was waited for.
inline std::uint64_t& reads_asked() noexcept {
  thread_local std::uint64_t count = 0;
  return count;
}

}  // namespace penstock
