#include "pipeline/core/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <penstock/internal/control_groups.h>
#include <penstock/internal/start_thread.h>

namespace penstock {

std::uint64_t default_memory_bytes() {
  constexpr double kMost = 2.0 * 1024 * 1024 * 1024;
  double total =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double limit = ControlGroups().memory_limit();
  if (limit > 0) total = std::min(total, limit);
  return static_cast<std::uint64_t>(std::min(total / 4, kMost));
}

int usable_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  const double quota = ControlGroups().cpu_quota();
  if (quota > 0) cpus = std::min(cpus, static_cast<int>(quota + 0.5));
  return std::max(cpus, 1);
}

int startable_threads(int wanted) {
  // Assumes that a number of threads that could be started once can be started again. Trying takes
  // a moment.
  static std::atomic<int> most{0};
  if (wanted <= most.load(std::memory_order_relaxed)) return wanted;
  std::latch done(1);
  std::vector<Thread> threads;
  try {
    // First: a running thread that could not be stored would be waited for.
    threads.reserve(static_cast<std::size_t>(wanted));
    while (static_cast<int>(threads.size()) < wanted)
      threads.push_back(start_thread("a try", [&] { done.wait(); }));
    most.store(wanted, std::memory_order_relaxed);
  } catch (...) {  // this many could be started; all of them wait and must be released
  }
  done.count_down();
  return static_cast<int>(threads.size());
}

}  // namespace penstock
