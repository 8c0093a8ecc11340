#include "cluster/net/room.h"

#include <algorithm>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <penstock/error.h>
#include <penstock/internal/posix.h>
#include <penstock/internal/start_thread.h>

namespace penstock::cluster {
namespace {

constexpr int kNeededDescriptors = 32;

/// The threads that gRPC starts beside those of its pools, whose sizes follow the CPUs.
constexpr int kOwnThreads = 8;
constexpr int kMostPooled = 16;

/// Opens descriptors, and closes them again. Returns how many there were.
int openable(int most) noexcept {
  std::vector<UniqueFd> all;
  try {
    all.reserve(static_cast<std::size_t>(most));
  } catch (const std::exception&) {
    return 0;
  }
  while (static_cast<int>(all.size()) < most) {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
    if (!fd) break;
    all.push_back(std::move(fd));
  }
  return static_cast<int>(all.size());
}

/// Starts threads, and ends them again. Returns how many there were.
int startable(int most) noexcept {
  std::latch done(1);
  std::vector<Thread> all;
  try {
    all.reserve(static_cast<std::size_t>(most));
    while (static_cast<int>(all.size()) < most)
      all.push_back(start_thread("a try", [&] { done.wait(); }));
  } catch (const std::exception&) {  // no more of them
  }
  done.count_down();
  return static_cast<int>(all.size());
}

void require_descriptors() {
  if (openable(kNeededDescriptors) == kNeededDescriptors) return;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  const int there = openable(kNeededDescriptors);
  if (there < kNeededDescriptors)
    throw Error(ErrorCode::resource_exhausted,
                "communication with other processes needs " + std::to_string(kNeededDescriptors) +
                    " more file descriptors, but this process gets " + std::to_string(there) +
                    ": raise ulimit -n");
}

void require_threads() {
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  const int needed = kOwnThreads + 2 * std::clamp(cpus, 1, kMostPooled);
  const int there = startable(needed);
  if (there < needed)
    throw Error(ErrorCode::resource_exhausted,
                "communication with other processes needs " + std::to_string(needed) +
                    " more threads, but this process can start " + std::to_string(there) +
                    " (RLIMIT_NPROC, RLIMIT_AS or the container's pids.max)");
}

}  // namespace

void require_room_for_grpc() {
  require_descriptors();
  require_threads();
}

}  // namespace penstock::cluster
