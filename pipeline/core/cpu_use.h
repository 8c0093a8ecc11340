// How much CPUs were used, by anyone.
#pragma once

#include <istream>

#include <sched.h>

namespace penstock {

/// Returns the seconds so far in which these CPUs ran something, or the host of a virtual machine
/// had them. `stat` is like /proc/stat, which counts `ticks` a second.
double used_cpu_seconds(std::istream& stat, const cpu_set_t& cpus, double ticks);

}  // namespace penstock
