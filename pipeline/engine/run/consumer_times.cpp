#include "pipeline/engine/run/consumer_times.h"

#include <algorithm>

#include <ctime>

namespace penstock {
namespace {

constexpr std::int64_t kSettled_ns = 100'000'000;

std::int64_t clock_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

thread_local std::int64_t rested_so_far_ns = 0;

double seconds(std::int64_t ns) noexcept {
  return 1e-9 * static_cast<double>(ns);
}

}  // namespace

TimedRest::TimedRest() noexcept : begin_ns_(clock_ns()) {}

TimedRest::~TimedRest() {
  rested_so_far_ns += clock_ns() - begin_ns_;
}

std::int64_t TimedRest::total_ns() noexcept {
  return rested_so_far_ns;
}

ConsumerTimes::ConsumerTimes() noexcept : start_ns_(clock_ns()) {}

std::int64_t ConsumerTimes::now() noexcept {
  return clock_ns();
}

// Counts the time for all calls since the last measurement. But a large time did not occur in each
// of them.
std::int64_t ConsumerTimes::look(std::int64_t begin_ns, std::int64_t rested_ns) noexcept {
  constexpr int kMost = 64;
  constexpr std::int64_t kSmall_ns = 10'000;  // two clock reads take less than a hundredth of it
  const std::int64_t now_ns = now();
  const std::int64_t took_ns = std::max<std::int64_t>(0, now_ns - begin_ns - rested_ns);
  const std::int64_t all_ns = took_ns + (one_of_ - 1) * std::min(took_ns, kSmall_ns);
  const bool small = looked_ns_ != 0 && (now_ns - looked_ns_) / one_of_ < kSmall_ns;
  one_of_ = small ? std::min(2 * one_of_, kMost) : 1;
  skipped_ = one_of_;
  looked_ns_ = now_ns;
  // Not sooner: short runs do not need it, and are spared the time.
  if (!noted_ && now_ns - start_ns_ >= kSettled_ns) note_process();
  return all_ns;
}

void ConsumerTimes::note_first() noexcept {
  first_ns_.store(std::max<std::int64_t>(1, clock_ns() - start_ns_), std::memory_order_relaxed);
}

void ConsumerTimes::ended() noexcept {
  end_ns_.store(std::max<std::int64_t>(1, clock_ns() - start_ns_), std::memory_order_relaxed);
}

void ConsumerTimes::note_process() noexcept {
  noted_ = true;
  const CpuTimes before = cpu_times();
  MutexLock lock(mutex_);
  before_ = before;
}

void ConsumerTimes::fill(Stats& stats) const {
  const std::int64_t end_ns = end_ns_.load(std::memory_order_relaxed);
  stats.wall_s = seconds(end_ns != 0 ? end_ns : clock_ns() - start_ns_);
  stats.first_s = seconds(first_ns_.load(std::memory_order_relaxed));
  stats.wait_s = std::min(stats.wall_s, seconds(wait_ns_.load(std::memory_order_relaxed)));
  stats.cpu_s = cpu_seconds() - cpu_start_s_;
  MutexLock lock(mutex_);
  stats.cpu_before = before_;
}

}  // namespace penstock
