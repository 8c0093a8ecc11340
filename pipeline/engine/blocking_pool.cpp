#include "pipeline/engine/blocking_pool.h"

#include <bit>
#include <utility>

#include <penstock/error.h>

#include "pipeline/engine/memory.h"
#include "pipeline/engine/waits.h"

namespace penstock {

BlockingPool::BlockingPool(int initial, int limit, std::shared_ptr<TuningLog> log)
    : log_(std::move(log)), limit_(static_cast<std::size_t>(limit)) {
  MutexLock lock(mutex_);
  try {
    for (int i = 0; i < initial; ++i) threads_.emplace_back([this] { serve(); });
  } catch (...) {  // others have taken what could be started: those that there are will do
    if (!threads_.empty()) return;
    throw Error(ErrorCode::resource_exhausted,
                "no thread for what waits can be started (RLIMIT_NPROC, or the container's "
                "pids.max)");
  }
}

BlockingPool::~BlockingPool() {
  std::vector<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    ready_.notify_all();
    threads.swap(threads_);
  }
}

void BlockingPool::submit(std::function<void()> work) {
  MutexLock lock(mutex_);
  queue_.push_back({std::move(work), std::chrono::steady_clock::now()});
  grow_if_late();
  if (idle_ > 0) ready_.notify_one();
}

void BlockingPool::grow_if_late() {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  constexpr std::size_t kFew = 4;
  if (threads_.size() >= kFew && waiting_ < 0.25) return;
  if (idle_ > 0 || stopping_ || queue_.empty() || threads_.size() >= limit_) return;
  const auto waited = std::chrono::steady_clock::now() - queue_.front().since;
  if (waited < kMoment) return;
  // Many are tried before, so that what else starts threads is left some.
  constexpr std::size_t kMany = 64;
  if (threads_.size() >= kMany && std::has_single_bit(threads_.size()) &&
      startable_threads(static_cast<int>(2 * threads_.size())) <
          static_cast<int>(2 * threads_.size())) {
    limit_ = threads_.size();
    return;
  }
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (...) {
    return;  // those that there are will do
  }
  note(waited);
}

// There may be hundreds: each doubling is said.
void BlockingPool::note(std::chrono::nanoseconds waited) {
  if (threads_.size() < 2 * noted_) return;
  log_->note("reading threads", std::exchange(noted_, threads_.size()), threads_.size(),
             [waiting = queue_.size(), waited] {
               return std::to_string(waiting) + " reads waited for one, the first " + in_ms(waited);
             });
}

void BlockingPool::serve() {
  MutexLock lock(mutex_);
  for (;;) {
    while (queue_.empty() && !stopping_) {
      ++idle_;
      ready_.wait(mutex_);
      --idle_;
    }
    if (queue_.empty()) return;
    Task task = queue_.pop_front();
    grow_if_late();
    lock.unlock();
    const std::uint64_t before = times_waited();
    task.work();
    const bool waited = times_waited() != before;
    lock.lock();
    waiting_ += ((waited ? 1.0 : 0.0) - waiting_) / 8;
  }
}

}  // namespace penstock
