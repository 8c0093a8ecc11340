// The CPU time and memory that this process has used.
#pragma once

#include <cstdint>

namespace penstock {

/// The CPU time of this process's threads so far, in seconds. Figures that the system does not give
/// are 0.
struct CpuTimes {
  double ran_s = 0;        ///< existing threads ran
  double waited_s = 0;     ///< existing threads could have run and had no CPU
  double throttled_s = 0;  ///< a quota kept the process from running
  /// Others had one of the CPUs that the process may run on: other processes and, where this is a
  /// virtual machine, the host.
  double others_s = 0;

  /// Returns the times between two moments.
  friend CpuTimes operator-(CpuTimes a, const CpuTimes& b) {
    return {a.ran_s - b.ran_s, a.waited_s - b.waited_s, a.throttled_s - b.throttled_s,
            a.others_s - b.others_s};
  }
};
/// Returns the times so far. Reads a file for each thread, which takes some 10 µs each. A figure
/// that it lacks the memory for is 0.
CpuTimes cpu_times() noexcept;

/// Returns the user and system time of all threads so far.
double cpu_seconds() noexcept;
/// Returns the most memory that the process has had resident; 0: not known.
std::uint64_t peak_resident_bytes() noexcept;
/// Returns the number of processors that the process may run on.
int usable_processors() noexcept;

}  // namespace penstock
