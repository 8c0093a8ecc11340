#include "staging/turn_watch.h"

#include <algorithm>

#include <penstock/error.h>
#include <penstock/log.h>

namespace penstock {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kWarnAfter = 10 * kSecond;

std::string in_seconds(std::int64_t ns) {
  return std::to_string(static_cast<double>(ns) * 1e-9).substr(0, 5) + " s";
}

}  // namespace

void TurnWatch::set(const FeederWait& wait) {
  const MutexLock lock(mutex_);
  wait_ = wait;
}

FeederWait TurnWatch::get() const {
  const MutexLock lock(mutex_);
  return wait_;
}

std::int64_t TurnWatch::first_look(std::int64_t since) const noexcept {
  return since + std::min(kWarnAfter, watchdog_ns_);
}

std::int64_t TurnWatch::look(const std::string& waiting, const std::string& awaited,
                             std::int64_t since, std::int64_t now, const char* remedy) {
  const std::int64_t waited = now - since;
  if (waited < std::min(kWarnAfter, watchdog_ns_)) return first_look(since);
  const std::string who =
      waiting + " waits for " + awaited + ", which has neither taken nor released a batch for ";
  if (waited >= watchdog_ns_)
    throw Error(ErrorCode::no_progress, who + in_seconds(watchdog_ns_) + remedy);
  if (!warned_.exchange(true)) log(LogLevel::warning, who + in_seconds(kWarnAfter));
  return since + watchdog_ns_;
}

}  // namespace penstock
