#include "tools/penstock/support/process.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <sched.h>
#include <sys/resource.h>

#include <penstock/control_groups.h>

namespace penstock::tool {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A thread's time on a CPU and in a queue for one, in nanoseconds.
CpuTimes cpu_times() {
  CpuTimes times;
  std::error_code none;
  std::filesystem::directory_iterator thread("/proc/self/task", none);
  for (; !none && thread != std::filesystem::directory_iterator(); thread.increment(none)) {
    std::ifstream file(thread->path() / "schedstat");
    double ran = 0;
    double waited = 0;
    if (!(file >> ran >> waited)) continue;  // it has ended
    times.ran_s += 1e-9 * ran;
    times.waited_s += 1e-9 * waited;
  }
  const ControlGroups groups;
  times.throttled_s = groups.throttled_s();
  times.pressure_s = groups.cpu_pressure_s();
  return times;
}

std::uint64_t peak_resident_bytes() {
  // Not ru_maxrss: that survives exec, and so counts whoever started this process.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace penstock::tool
