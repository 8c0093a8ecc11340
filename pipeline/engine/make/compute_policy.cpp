#include "pipeline/engine/make/compute_policy.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "pipeline/core/machine.h"

namespace penstock {
namespace {

/// oneTBB initialises itself on first use, under a lock that it never releases if memory is out at
/// that time. So it is used once while the process starts.
[[maybe_unused]] const bool kPrepared = [] {
  tbb::task_arena(1, 1).initialize();
  return true;
}();

/// Returns false if there is no memory for the arena. Call this once: after a failed attempt,
/// oneTBB would wait for ever for its end.
bool initialize(tbb::task_arena& arena) noexcept {
  try {
    arena.initialize();
  } catch (...) {
    return false;
  }
  return true;
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ComputePolicy::ComputePolicy(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
                             std::shared_ptr<TuningLog> log)
    : size_(most),
      by_quota_(by_quota),
      consumers_waiting_(consumers_waiting),
      log_(std::move(log)),
      arena_(most, static_cast<unsigned>(most)),
      has_arena_(initialize(arena_)),
      most_(static_cast<std::size_t>(most)),
      asked_(Clock::now()),
      while_began_(asked_) {}

void ComputePolicy::enter(const std::function<void()>& serve) noexcept {
  try {
    if (has_arena_) return arena_.execute(serve);
  } catch (...) {
    // Continue as without an arena, which only callables that use oneTBB notice.
  }
  serve();
}

bool ComputePolicy::run(const std::function<void()>& work) noexcept {
  work();
  if (by_quota_) ask_quota();
  return false;
}

bool ComputePolicy::wants_another(std::size_t threads) noexcept {
  mutex.assert_held();
  return threads < most_ && consumers_waiting_.load(std::memory_order_relaxed) > 0;
}

void ComputePolicy::grown(std::size_t threads, const Late& late) noexcept {
  mutex.assert_held();
  if (std::exchange(shrunk_, false))
    while_ = std::min(2 * while_, std::chrono::milliseconds(64000));
  begin_while(Clock::now());
  log_->note("threads", threads - 1, threads, [late] {
    return std::to_string(late.tasks) + " groups waited for one, the first " + in_ms(late.waited) +
           ", and so did the consumer";
  });
}

void ComputePolicy::ask_quota() noexcept {
  const auto now = Clock::now();
  {
    MutexLock lock(mutex);
    if (now - asked_ < std::chrono::seconds(1)) return;
    asked_ = now;
  }
  int most = 0;
  try {
    most = std::min(size_, usable_cpus());
  } catch (...) {
    return;  // no memory to ask: the last answer holds until next time
  }
  MutexLock lock(mutex);
  most_ = static_cast<std::size_t>(most);
}

void ComputePolicy::begin_while(Clock::time_point now) {
  while_began_ = now;
  busy_ = {};
}

std::size_t ComputePolicy::ended(const Done& done, std::size_t threads) noexcept {
  mutex.assert_held();
  busy_ += done.ended - done.began;
  if (threads > most_) {
    log_->note("threads", threads, most_, [most = most_] {
      return "the process may use " + std::to_string(most) + " CPUs now";
    });
    return most_;
  }
  if (consumers_waiting_.load(std::memory_order_relaxed) > 0) {
    begin_while(done.ended);
    return threads;
  }
  const std::chrono::nanoseconds took = done.ended - while_began_;
  if (threads == 1 || took < while_) return threads;
  const double used = seconds(busy_) / seconds(took);
  begin_while(done.ended);
  constexpr double kRoom = 0.9;
  if (used > kRoom * static_cast<double>(threads - 1)) return threads;
  shrunk_ = true;
  log_->note("threads", threads, threads - 1, [took, used] {
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(),
                  "for %.1f s the consumer never waited, and %.2f were busy", seconds(took), used);
    return std::string(text.data());
  });
  return threads - 1;
}

}  // namespace penstock
