// The share of the machine that this process may use.
#pragma once

#include <cstdint>

namespace penstock {

/// Returns the default budget: a quarter of the memory that this process may use (the container's
/// limit, or else the machine's), at most 2 GiB.
std::uint64_t default_memory_bytes();
/// Returns the number of CPUs that this process may use: its affinity, limited by the container's
/// quota, at least 1.
int usable_cpus();
/// Returns how many of `wanted` threads can be started in addition to the existing ones.
int startable_threads(int wanted);

}  // namespace penstock
