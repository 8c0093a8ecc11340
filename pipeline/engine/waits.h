// Tells a thread that waits from one that others keep from running.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace penstock {

/// How often this thread has given up its CPU of its own accord, to wait for a device, a lock or a
/// time. It stays the same while others take the CPU from it. Source: getrusage(2), ru_nvcsw.
inline std::uint64_t times_waited() noexcept {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_nvcsw) : 0;
}

}  // namespace penstock
