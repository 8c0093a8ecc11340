#include "pipeline/http/pace.h"

#include <algorithm>
#include <thread>

#include "pipeline/http/send_rate.h"

namespace penstock::http {
namespace {

double seconds_of(Pace::Clock::time_point time) noexcept {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

void learn(double& mean, double sample) noexcept {
  mean = mean == 0 ? sample : mean + (sample - mean) / 16;
}

}  // namespace

/// All of its members are guarded by the Pace's mutex.
class Pace::Server {
 public:
  SendRate rate;
};

Pace::Pace(std::size_t most) : most_(most) {}
Pace::~Pace() = default;

Pace::Server& Pace::server(std::string_view origin) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = servers_.find(origin); found != servers_.end()) return *found->second;
  }
  auto made = std::make_unique<Server>();
  const MutexLock lock(mutex_);
  return *servers_.try_emplace(std::string(origin), std::move(made)).first->second;
}

bool Pace::acquire(Server& server, Clock::time_point deadline) {
  double at_s = 0;
  {
    const MutexLock lock(mutex_);
    while (under_way_ >= most_) {
      if (Clock::now() >= deadline) return false;
      changed_.wait_until(mutex_, deadline);
    }
    const double now_s = seconds_of(Clock::now());
    at_s = server.rate.next(now_s);
    if (at_s < seconds_of(deadline)) {
      server.rate.take(now_s);
      ++under_way_;
    }
  }
  const auto at = Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(at_s)));
  std::this_thread::sleep_until(std::min(at, deadline));
  return at < deadline;
}

void Pace::release() noexcept {
  const MutexLock lock(mutex_);
  --under_way_;
  changed_.notify_one();
}

void Pace::good(Server& server, double first_byte_s, double total_s, double waited_s,
                std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kTelling = 256 << 10;
  const MutexLock lock(mutex_);
  server.rate.good(seconds_of(Clock::now()));
  lateness_.took(bytes, waited_s);
  learn(stats_.latency_ms, 1e3 * first_byte_s);
  if (bytes >= kTelling && total_s > first_byte_s)
    learn(stats_.bytes_per_second, static_cast<double>(bytes) / (total_s - first_byte_s));
  changed_.notify_one();
}

void Pace::wrote(Server& server, std::uint64_t bytes) noexcept {
  const MutexLock lock(mutex_);
  stats_.bytes_written += bytes;
  server.rate.good(seconds_of(Clock::now()));
  changed_.notify_one();
}

void Pace::throttled(Server& server, Clock::time_point sent,
                     std::optional<std::uint64_t> retry_after_s) noexcept {
  const MutexLock lock(mutex_);
  ++stats_.throttled;
  server.rate.throttled(seconds_of(Clock::now()), seconds_of(sent), retry_after_s);
}

std::uint64_t Pace::goods(const Server& server) const noexcept {
  const MutexLock lock(mutex_);
  return server.rate.goods();
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

Pace::Clock::time_point Pace::late_at(std::uint64_t bytes) const noexcept {
  constexpr double kNever = 86'400;
  const MutexLock lock(mutex_);
  const double after = std::min(kNever, lateness_.late_after(bytes));
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(after));
}

bool Pace::hedge(Server& server) noexcept {
  constexpr std::uint64_t kOneIn = 50;
  constexpr std::size_t kMostHedges = 8;  // each has memory for a request's bytes
  const MutexLock lock(mutex_);
  const double now_s = seconds_of(Clock::now());
  const bool calm =
      !server.rate.limit(now_s) && server.rate.next(now_s) <= now_s && under_way_ < most_;
  if (!calm || hedges_ >= kMostHedges || (stats_.hedged + 1) * kOneIn > stats_.requests + 1)
    return false;
  server.rate.take(now_s);
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
  stats.connections = most_;
  for (const auto& [origin, server] : servers_) {
    const double limit = server->rate.limit(seconds_of(Clock::now())).value_or(0);
    if (stats.requests_per_second == 0 || (limit > 0 && limit < stats.requests_per_second))
      stats.requests_per_second = limit;
  }
  return stats;
}

}  // namespace penstock::http
