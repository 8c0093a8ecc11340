#include <penstock/process.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <penstock/internal/control_groups.h>

#include "pipeline/core/cpu_use.h"

namespace penstock {
namespace {

/// Adds the threads' times on a CPU and in the queue for one, which the system counts in
/// nanoseconds. Uses system calls only, as std::filesystem's iterators end the process when there
/// is no memory.
void add_threads(CpuTimes& times) noexcept {
  DIR* const threads = ::opendir("/proc/self/task");
  if (threads == nullptr) return;
  while (const dirent* const thread = ::readdir(threads)) {
    char name[sizeof thread->d_name + sizeof "/schedstat"];
    std::snprintf(name, sizeof name, "%s/schedstat", thread->d_name);
    const int file = ::openat(::dirfd(threads), name, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;  // it has ended
    char text[128];
    const ssize_t bytes = ::read(file, text, sizeof text - 1);
    ::close(file);
    if (bytes <= 0) continue;
    text[bytes] = 0;
    char* rest = text;
    times.ran_s += 1e-9 * std::strtod(rest, &rest);
    times.waited_s += 1e-9 * std::strtod(rest, &rest);
  }
  ::closedir(threads);
}

/// Returns the time so far in which anyone used the CPUs that this process may run on.
double used_by_anyone() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 0;
  std::ifstream stat("/proc/stat");
  return used_cpu_seconds(stat, cpus, static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

}  // namespace

CpuTimes cpu_times() noexcept {
  CpuTimes times;
  try {
    add_threads(times);
    const ControlGroups groups;
    times.throttled_s = groups.throttled_s();
    times.others_s = used_by_anyone() - cpu_seconds();
  } catch (const std::exception&) {
    return times;
  }
  return times;
}

double cpu_seconds() noexcept {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t peak_resident_bytes() noexcept {
  try {
    // Not ru_maxrss: that survives exec, and so includes the process that started this one.
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  } catch (const std::exception&) {
    return 0;
  }
  return 0;
}

int usable_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace penstock
