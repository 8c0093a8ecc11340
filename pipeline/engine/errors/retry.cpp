#include "pipeline/engine/errors/retry.h"

#include <algorithm>

namespace penstock {
namespace {

int retries_of(const RunOptions& options) {
  constexpr int kUsual = 4;
  if (options.retries < -1 || options.retries > 1000 || options.retry_ms < 0) {
    throw Error(ErrorCode::invalid_argument,
                "retries must be in [-1, 1000] and retry_ms not negative");
  }
  if (options.retries >= 0) return options.retries;
  return options.on_error == OnError::retry ? kUsual : 0;
}

}  // namespace

Retry::Retry(const RunOptions& options)
    : most_(retries_of(options)), first_(std::min(options.retry_ms, 1000)) {}

bool Retry::again(const Error& error, int tries, bool may_wait) {
  if (error.code() != ErrorCode::unavailable || tries > most_) return false;
  constexpr std::chrono::milliseconds kLongest(1000);
  const auto wait = std::min(kLongest, first_ * (1 << std::min(tries - 1, 10)));
  const auto until = std::chrono::steady_clock::now() + wait;
  MutexLock lock(mutex_);
  while (!stopped_ && may_wait) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= left.zero()) break;
    stopped_changed_.wait_for(mutex_, left);
  }
  if (stopped_) return false;
  count_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Retry::stop() noexcept {
  MutexLock lock(mutex_);
  stopped_ = true;
  stopped_changed_.notify_all();
}

}  // namespace penstock
