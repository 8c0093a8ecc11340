#include "pipeline/core/forks.h"

#include <atomic>

#include <pthread.h>

namespace penstock {
namespace {

std::atomic<std::uint64_t> fork_count{0};

}  // namespace

std::uint64_t forks() noexcept {
  static const int registered = ::pthread_atfork(
      nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return fork_count.load(std::memory_order_relaxed);
}

Error away_from_home() {
  return {ErrorCode::invalid_argument,
          "this process was forked after its parent had run datasets, so it lacks their threads; "
          "fork before the first run, or exec"};
}

}  // namespace penstock
