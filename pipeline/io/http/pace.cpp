#include "pipeline/io/http/pace.h"

#include <algorithm>

namespace penstock::http {
namespace {

using PaceClock = std::chrono::steady_clock;

double pace_now() noexcept {
  return std::chrono::duration<double>(PaceClock::now().time_since_epoch()).count();
}

void learn(double& mean, double sample) noexcept {
  mean = mean == 0 ? sample : mean + (sample - mean) / 16;
}

}  // namespace

void Throttle::good() noexcept {
  if (limit_ == most_ || ++good_ < limit_) return;
  good_ = 0;
  ++limit_;
}

void Throttle::throttled(double now_s, std::optional<std::uint64_t> retry_after_s) noexcept {
  constexpr double kMostWait = 30;
  constexpr double kBetween = 1;  // answers to requests that were sent together count once
  good_ = 0;
  if (now_s - halved_at_ >= kBetween) {
    limit_ = std::max<std::size_t>(1, limit_ / 2);
    halved_at_ = now_s;
  }
  if (retry_after_s)
    not_before_ =
        std::max(not_before_, now_s + std::min(kMostWait, static_cast<double>(*retry_after_s)));
}

bool Pace::acquire(PaceClock::time_point deadline) {
  MutexLock lock(mutex_);
  while (true) {
    const PaceClock::time_point now = PaceClock::now();
    if (now >= deadline) return false;
    const double wait = throttle_.not_before() - pace_now();
    if (wait <= 0 && under_way_ < throttle_.limit()) break;
    const auto until =
        wait > 0 ? std::min(deadline, now + std::chrono::duration_cast<PaceClock::duration>(
                                                std::chrono::duration<double>(wait)))
                 : deadline;
    changed_.wait_until(mutex_, until);
  }
  ++under_way_;
  return true;
}

void Pace::release() noexcept {
  const MutexLock lock(mutex_);
  --under_way_;
  changed_.notify_one();
}

void Pace::good(double first_byte_s, double total_s, double waited_s,
                std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kTelling = 256 << 10;
  const MutexLock lock(mutex_);
  throttle_.good();
  lateness_.took(bytes, waited_s);
  learn(stats_.latency_ms, 1e3 * first_byte_s);
  if (bytes >= kTelling && total_s > first_byte_s)
    learn(stats_.bytes_per_second, static_cast<double>(bytes) / (total_s - first_byte_s));
  changed_.notify_one();
}

void Pace::wrote(std::uint64_t bytes) noexcept {
  const MutexLock lock(mutex_);
  stats_.bytes_written += bytes;
  throttle_.good();
  changed_.notify_one();
}

void Pace::throttled(std::optional<std::uint64_t> retry_after_s) noexcept {
  const MutexLock lock(mutex_);
  ++stats_.throttled;
  throttle_.throttled(pace_now(), retry_after_s);
}

void Pace::sent(bool again) noexcept {
  const MutexLock lock(mutex_);
  ++stats_.requests;
  if (again) ++stats_.again;
}

void Pace::came(std::uint64_t bytes, double waited_s) noexcept {
  const MutexLock lock(mutex_);
  stats_.waiting_s += waited_s;
  stats_.bytes += bytes;
}

void Pace::needed(std::uint64_t bytes, std::uint64_t cached) noexcept {
  const MutexLock lock(mutex_);
  stats_.bytes_needed += bytes;
  stats_.bytes_cached += cached;
}

PaceClock::time_point Pace::late_at(std::uint64_t bytes) const noexcept {
  constexpr double kNever = 86'400;
  const MutexLock lock(mutex_);
  const double after = std::min(kNever, lateness_.late_after(bytes));
  return PaceClock::now() +
         std::chrono::duration_cast<PaceClock::duration>(std::chrono::duration<double>(after));
}

bool Pace::hedge() noexcept {
  constexpr std::uint64_t kOneIn = 50;
  constexpr std::size_t kMostHedges = 8;  // each has memory for a request's bytes
  const MutexLock lock(mutex_);
  const bool calm = throttle_.limit() == throttle_.most() && under_way_ < throttle_.limit();
  if (!calm || hedges_ >= kMostHedges || (stats_.hedged + 1) * kOneIn > stats_.requests + 1)
    return false;
  ++under_way_;
  ++hedges_;
  ++stats_.hedged;
  ++stats_.requests;
  return true;
}

void Pace::hedge_ended() noexcept {
  const MutexLock lock(mutex_);
  --hedges_;
}

std::uint64_t Pace::bytes_of_a_request() const noexcept {
  constexpr double kLeast = 16 << 10;
  constexpr double kMost = 1 << 20;
  const MutexLock lock(mutex_);
  return static_cast<std::uint64_t>(
      std::clamp(1e-3 * stats_.latency_ms * stats_.bytes_per_second, kLeast, kMost));
}

RemoteStats Pace::stats() const noexcept {
  const MutexLock lock(mutex_);
  RemoteStats stats = stats_;
  stats.connections = throttle_.most();
  return stats;
}

}  // namespace penstock::http
