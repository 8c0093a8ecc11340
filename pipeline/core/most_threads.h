// Limits that the engine keeps and tools tell.
#pragma once

namespace penstock {

inline constexpr int kMostThreads = 1023;    ///< that compute in one run
inline constexpr int kMostIoThreads = 4096;  ///< that wait for files

}  // namespace penstock
