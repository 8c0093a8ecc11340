// What this process may use of the machine.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "pipeline/engine/memory.h"

namespace penstock {
namespace {

/// The first number of a control group's file, or 0 if there is none ("max").
double first_number(const std::string& path, double* second = nullptr) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value)) return 0;
  if (second != nullptr) file >> *second;
  return value;
}

}  // namespace

std::uint64_t default_memory_bytes() {
  constexpr double kMost = 2.0 * 1024 * 1024 * 1024;
  double total =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max",                       // cgroup 2
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {  // cgroup 1
    const double limit = first_number(path);
    if (limit > 0) total = std::min(total, limit);
  }
  return static_cast<std::uint64_t>(std::min(total / 4, kMost));
}

int usable_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  double period = 0;
  double quota = first_number("/sys/fs/cgroup/cpu.max", &period);
  if (quota <= 0) {
    quota = first_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = first_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  if (quota > 0 && period > 0) cpus = std::min(cpus, static_cast<int>(quota / period + 0.5));
  return std::max(cpus, 1);
}

}  // namespace penstock
