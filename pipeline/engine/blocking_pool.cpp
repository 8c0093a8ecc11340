#include "pipeline/engine/blocking_pool.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <penstock/start_thread.h>

#include "pipeline/core/machine.h"
#include "pipeline/core/thread_name.h"
#include "pipeline/core/waits.h"
#include "pipeline/order/support.h"

namespace penstock {

BlockingPool::BlockingPool(int initial, int limit, std::shared_ptr<TuningLog> log)
    : log_(std::move(log)), limit_(static_cast<std::size_t>(limit)) {
  MutexLock lock(mutex_);
  try {
    for (int i = 0; i < initial; ++i) start();
  } catch (...) {  // no more can be started now; the existing ones must do
    if (threads_.empty()) throw;
  }
}

BlockingPool::~BlockingPool() {
  std::vector<Thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    ready_.notify_all();
    threads.swap(threads_);
  }
}

void BlockingPool::submit(std::function<void()> work) {
  MutexLock lock(mutex_);
  const auto now = Clock::now();
  queue_.push_back({std::move(work), now});
  // Nothing throws from here on, as the work was accepted.
  used_ = true;
  grow_if_late(now);
  if (idle_ > 0) ready_.notify_one();
}

int BlockingPool::threads() const {
  MutexLock lock(mutex_);
  return used_ ? static_cast<int>(threads_.size()) : 0;
}

void BlockingPool::look() {
  MutexLock lock(mutex_);
  grow_if_late(Clock::now());  // a started thread does so too
}

void BlockingPool::start() {
  // Reserve first: a running thread that could not be stored would have to be waited for.
  threads_.reserve(std::bit_ceil(threads_.size() + 1));
  working_.resize(threads_.size() + 1);
  threads_.push_back(
      start_thread("what waits", [this, thread = threads_.size()] { serve(thread); }));
  ++idle_;
}

void BlockingPool::grow_if_late(Clock::time_point now) noexcept {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  constexpr std::size_t kFew = 4;
  if (stopping_ || queue_.size() <= idle_ || threads_.size() >= limit_) return;
  const auto waited = now - queue_[idle_].since;  // there is a thread for each task before it
  if (waited < kMoment) return;
  if (threads_.size() >= kFew && waiting_ < 0.25 && threads_.size() - stuck(now) >= kFew) return;
  // Test whether the system allows many more, so that it leaves some threads to other code.
  constexpr std::size_t kMany = 64;
  if (threads_.size() >= kMany && std::has_single_bit(threads_.size()) &&
      startable_threads(static_cast<int>(2 * threads_.size())) <
          static_cast<int>(2 * threads_.size())) {
    limit_ = threads_.size();
    return;
  }
  try {
    start();
  } catch (...) {
    return;  // the existing threads must do
  }
  note(waited);
}

// Counts threads that have waited within one piece of work for so long that their result would
// influence the pool too late, or never.
std::size_t BlockingPool::stuck(Clock::time_point now) const noexcept {
  constexpr auto kLong = std::chrono::milliseconds(20);
  return static_cast<std::size_t>(
      std::count_if(working_.begin(), working_.end(), [&](const Working& one) {
        return one.since != Clock::time_point() && now - one.since > kLong && waits(one.thread);
      }));
}

// There may be hundreds of threads, so only each doubling is logged.
void BlockingPool::note(std::chrono::nanoseconds waited) {
  if (threads_.size() < 2 * noted_) return;
  log_->note("reading threads", std::exchange(noted_, threads_.size()), threads_.size(),
             [waiting = queue_.size(), waited] {
               return std::to_string(waiting) + " reads waited for one, the first " + in_ms(waited);
             });
}

void BlockingPool::serve(std::size_t thread) noexcept {
  name_this_thread("penstock-wait");
  const pid_t self = ::gettid();
  this_thread_may_wait();
  MutexLock lock(mutex_);
  for (;;) {
    while (queue_.empty() && !stopping_) ready_.wait(mutex_);
    if (queue_.empty()) return;
    Task task = queue_.pop_front();
    --idle_;
    const auto now = Clock::now();
    working_[thread] = {self, now};
    grow_if_late(now);
    lock.unlock();
    const WaitWatch watch;
    task.work();
    task.work = nullptr;
    const bool waited = watch.waited();
    lock.lock();
    waiting_ += ((waited ? 1.0 : 0.0) - waiting_) / 8;
    working_[thread] = {};
    ++idle_;
  }
}

}  // namespace penstock
