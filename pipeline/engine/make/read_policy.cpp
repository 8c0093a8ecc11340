#include "pipeline/engine/make/read_policy.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "pipeline/core/machine.h"
#include "pipeline/core/waits.h"
#include "pipeline/stage/counters.h"

namespace penstock {

void ReadPolicy::enter(const std::function<void()>& serve) noexcept {
  this_thread_may_wait();
  serve();
}

bool ReadPolicy::run(const std::function<void()>& work) noexcept {
  const WaitWatch watch;
  work();
  return watch.waited();
}

bool ReadPolicy::may_start(std::size_t threads) {
  constexpr std::size_t kFew = 4;
  std::vector<Working> all;  // if they may just lack a CPU
  {
    MutexLock lock(mutex);
    if (threads >= kFew && waiting_ < 0.25) all = working_;
  }
  if (!all.empty()) {
    // Threads that have waited within one piece of work for so long that their result would
    // influence the pool too late, or never.
    constexpr auto kLong = std::chrono::milliseconds(20);
    const auto now = Clock::now();
    const auto stuck = std::ranges::count_if(all, [&](const Working& one) {
      return one.since != Clock::time_point() && now - one.since > kLong && waits(one.thread);
    });
    if (threads - static_cast<std::size_t>(stuck) >= kFew) return false;
  }
  // Test whether the system allows many more, so that it leaves some threads to other code.
  constexpr std::size_t kMany = 64;
  if (threads < kMany || !std::has_single_bit(threads) ||
      startable_threads(static_cast<int>(2 * threads)) >= static_cast<int>(2 * threads))
    return true;
  MutexLock lock(mutex);
  most_ = threads;
  return false;
}

void ReadPolicy::reserve(std::size_t threads) {
  mutex.assert_held();
  working_.reserve(std::bit_ceil(threads));
  working_.resize(threads);
}

bool ReadPolicy::wants_another(std::size_t threads) noexcept {
  mutex.assert_held();
  return threads < most_;
}

// There may be hundreds of threads, so only each doubling is logged.
void ReadPolicy::grown(std::size_t threads, const Late& late) noexcept {
  mutex.assert_held();
  if (threads < 2 * noted_) return;
  log_->note("reading threads", std::exchange(noted_, threads), threads, [late] {
    return std::to_string(late.tasks) + " reads waited for one, the first " + in_ms(late.waited);
  });
}

void ReadPolicy::began(std::size_t thread, Clock::time_point now) noexcept {
  mutex.assert_held();
  thread_local const pid_t self = ::gettid();
  working_[thread] = {self, now};
}

std::size_t ReadPolicy::ended(const Done& done, std::size_t threads) noexcept {
  mutex.assert_held();
  waiting_ += ((done.waited ? 1.0 : 0.0) - waiting_) / 8;
  working_[done.thread] = {};
  return threads;
}

}  // namespace penstock
