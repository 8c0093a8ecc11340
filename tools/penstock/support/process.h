// What this process has used.
#pragma once

#include <cstdint>

namespace penstock::tool {

/// User and system time of all threads so far.
double cpu_seconds();
/// The most memory the process has had resident.
std::uint64_t peak_resident_bytes();
/// Processors that the process may run on.
int usable_processors();

}  // namespace penstock::tool
