// What this process has used.
#pragma once

#include <cstdint>

namespace penstock::tool {

/// What the threads of this process had of the CPUs so far, in seconds. Figures that the system
/// does not give are 0.
struct CpuTimes {
  double ran_s = 0;        ///< threads that there are now ran
  double waited_s = 0;     ///< … could have run, and had no CPU
  double throttled_s = 0;  ///< a quota kept the process from running
  double pressure_s = 0;   ///< somebody in its group, or on the machine, waited for a CPU

  friend CpuTimes operator-(CpuTimes a, const CpuTimes& b) {
    return {a.ran_s - b.ran_s, a.waited_s - b.waited_s, a.throttled_s - b.throttled_s,
            a.pressure_s - b.pressure_s};
  }
};
CpuTimes cpu_times();

/// User and system time of all threads so far.
double cpu_seconds();
/// The most memory the process has had resident.
std::uint64_t peak_resident_bytes();
/// Processors that the process may run on.
int usable_processors();

}  // namespace penstock::tool
