#include "pipeline/engine/make/blocking_pool.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include <penstock/internal/start_thread.h>

#include "pipeline/core/machine.h"
#include "pipeline/core/thread_name.h"
#include "pipeline/core/waits.h"
#include "pipeline/stage/counters.h"

namespace penstock {

BlockingPool::BlockingPool(int initial, int limit, std::shared_ptr<TuningLog> log)
    : log_(std::move(log)), limit_(static_cast<std::size_t>(limit)), growing_(true) {
  try {
    for (int i = 0; i < initial; ++i) start();
  } catch (...) {  // no more can be started now; the existing ones must do
    MutexLock lock(mutex_);
    if (threads_.empty()) throw;
  }
  MutexLock lock(mutex_);
  growing_ = false;
}

BlockingPool::~BlockingPool() {
  std::vector<Thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    ready_.notify_all();
    while (growing_) grown_.wait(mutex_);
    threads.swap(threads_);
  }
}

void BlockingPool::submit(std::function<void()> work) {
  Late late;
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    accept({std::move(work), now});
    late = find_late(now);
  }
  grow(late);
}

void BlockingPool::enqueue(std::function<void()> work) {
  MutexLock lock(mutex_);
  accept({std::move(work), Clock::now()});
}

// If this throws, the task was not accepted.
void BlockingPool::accept(Task task) {
  queue_.push_back(std::move(task));
  used_ = true;
  if (idle_ > 0) ready_.notify_one();
}

int BlockingPool::threads() const {
  MutexLock lock(mutex_);
  return used_ ? static_cast<int>(threads_.size()) : 0;
}

void BlockingPool::look() {
  Late late;
  {
    MutexLock lock(mutex_);
    late = find_late(Clock::now());
  }
  grow(late);  // a started thread looks too
}

// The caller lets go of the mutex, and calls `grow` with the result.
BlockingPool::Late BlockingPool::find_late(Clock::time_point now) noexcept {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  if (stopping_ || growing_ || queue_.size() <= idle_ || threads_.size() >= limit_) return {};
  const auto waited = now - queue_[idle_].since;  // there is a thread for each task before it
  if (waited < kMoment) return {};
  growing_ = true;
  return {queue_.size(), waited};
}

void BlockingPool::grow(const Late& late) noexcept {
  if (late.tasks == 0) return;
  try {
    if (may_grow()) {
      start();
      note(late);
    }
  } catch (...) {  // the existing threads must do
  }
  MutexLock lock(mutex_);
  growing_ = false;
  grown_.notify_all();
}

bool BlockingPool::may_grow() {
  constexpr std::size_t kFew = 4;
  std::size_t threads = 0;
  std::vector<Working> all;  // if they may just lack a CPU
  {
    MutexLock lock(mutex_);
    threads = threads_.size();
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
  MutexLock lock(mutex_);
  limit_ = threads;
  return false;
}

// Called by one thread at a time, as `growing_` says.
void BlockingPool::start() {
  std::size_t thread = 0;
  {
    MutexLock lock(mutex_);
    thread = threads_.size();
    // Reserve first: a running thread that could not be stored would have to be waited for.
    threads_.reserve(std::bit_ceil(thread + 1));
    working_.reserve(std::bit_ceil(thread + 1));
    working_.resize(thread + 1);
    ++idle_;
  }
  try {
    Thread started = start_thread("what waits", [this, thread] { serve(thread); });
    MutexLock lock(mutex_);
    threads_.push_back(std::move(started));
  } catch (...) {
    MutexLock lock(mutex_);
    working_.pop_back();
    --idle_;
    throw;
  }
}

// There may be hundreds of threads, so only each doubling is logged.
void BlockingPool::note(const Late& late) {
  std::size_t before = 0;
  std::size_t threads = 0;
  {
    MutexLock lock(mutex_);
    threads = threads_.size();
    if (threads < 2 * noted_) return;
    before = std::exchange(noted_, threads);
  }
  log_->note("reading threads", before, threads, [late] {
    return std::to_string(late.tasks) + " reads waited for one, the first " + in_ms(late.waited);
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
    const Late late = find_late(now);
    lock.unlock();
    grow(late);
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
