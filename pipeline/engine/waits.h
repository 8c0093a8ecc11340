// Tells a thread that waits from one that others keep from running.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace penstock {

/// How often this thread has given up its CPU of its own accord, to wait for a device, a lock or a
/// time. It stays the same while others take the CPU from it. Source: getrusage(2), ru_nvcsw.
inline std::uint64_t times_waited() noexcept {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_nvcsw) : 0;
}

/// True if that thread of this process waits for something just now, or nobody can tell. Source:
/// proc_pid_stat(5), behind the name in brackets.
inline bool waits(pid_t thread) noexcept {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "/proc/self/task/%d/stat", static_cast<int>(thread));
  const int file = ::open(text.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  const std::string_view line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return line.rfind(") R") == std::string_view::npos;
}

}  // namespace penstock
