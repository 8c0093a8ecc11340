// Distinguishes a thread that waits from one that other threads keep off the CPU.
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

#include <penstock/internal/slow_work.h>

namespace penstock {

/// Returns how often this thread has given up its CPU voluntarily, to wait for a device, a lock or
/// a time. The count does not change when other threads take the CPU. Source: getrusage(2),
/// ru_nvcsw.
inline std::uint64_t times_waited() noexcept {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_nvcsw) : 0;
}

/// This thread's reads of local files so far: those that the page cache answered, and the others.
struct FileReads {
  std::uint64_t cached = 0;
  std::uint64_t others = 0;
};
inline FileReads& file_reads() noexcept {
  thread_local FileReads reads;
  return reads;
}

/// Tells whether this thread has waited for a device since the watch was made. If the page cache
/// answered all its reads, it has waited at most for memory or a lock. Then more threads would only
/// make each other wait.
class WaitWatch {
 public:
  bool waited() const noexcept {
    const FileReads& now = file_reads();
    const bool all_cached = now.cached != before_.cached && now.others == before_.others;
    return !all_cached && times_waited() != times_;
  }

 private:
  const std::uint64_t times_ = times_waited();
  const FileReads before_ = file_reads();
};

/// True if that thread of this process is waiting at the moment, or if its state cannot be read.
/// Source: proc_pid_stat(5), the field after the name in brackets.
inline bool waits(pid_t thread) noexcept {
  slow_work("the state of a thread is read");
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
