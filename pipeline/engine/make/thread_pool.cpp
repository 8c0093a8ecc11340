#include "pipeline/engine/make/thread_pool.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include <penstock/log.h>

#include "pipeline/core/thread_name.h"

namespace penstock {

ThreadPool::ThreadPool(std::unique_ptr<PoolPolicy> policy, int initial)
    : policy_(std::move(policy)) {
  for (int i = 0; i < initial; ++i) {
    try {
      Thread started = start();
      MutexLock lock(mutex_);
      threads_.push_back(std::move(started));
      ++allowed_;
    } catch (...) {
      if (i == 0) throw;
      return;  // the existing ones must do
    }
  }
}

ThreadPool::~ThreadPool() {
  std::vector<Thread> threads;
  MutexLock lock(mutex_);
  stopping_ = true;
  ready_.notify_all();
  while (growing_) grown_.wait(mutex_);
  threads.swap(threads_);
  lock.unlock();
}

void ThreadPool::submit(std::function<void()> work) {
  PoolPolicy::Late late;
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    accept({std::move(work), now});
    late = find_late(now);
  }
  grow(late);
}

void ThreadPool::enqueue(std::function<void()> work) {
  MutexLock lock(mutex_);
  accept({std::move(work), Clock::now()});
}

// If this throws, the task was not accepted.
void ThreadPool::accept(Task task) {
  queue_.push_back(std::move(task));
  used_ = true;
  if (running_ < allowed_) ready_.notify_one();
}

void ThreadPool::look() {
  PoolPolicy::Late late;
  {
    MutexLock lock(mutex_);
    late = find_late(Clock::now());
  }
  grow(late);  // a started thread looks too
}

int ThreadPool::threads() const {
  MutexLock lock(mutex_);
  return used_ ? static_cast<int>(allowed_) : 0;
}

// The first tasks have a thread each, which has yet to take them. The caller releases the mutex,
// and calls `grow` with the result.
PoolPolicy::Late ThreadPool::find_late(Clock::time_point now) noexcept {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  constexpr auto kPause = std::chrono::seconds(1);  // by then other threads may have ended
  const std::size_t taken = allowed_ - std::min(running_, allowed_);
  if (growing_ || stopping_ || queue_.size() <= taken) return {};
  const auto waited = now - queue_[taken].since;
  if (waited < kMoment || !policy_->wants_another(allowed_)) return {};
  if (allowed_ == threads_.size() && failed_ != Clock::time_point() && now - failed_ < kPause)
    return {};
  growing_ = true;
  return {queue_.size() - taken, waited};
}

void ThreadPool::grow(const PoolPolicy::Late& late) noexcept {
  if (late.tasks == 0) return;
  std::size_t threads = 0;
  bool rests = false;  // a thread that there is already
  {
    MutexLock lock(mutex_);
    threads = threads_.size();
    rests = allowed_ < threads;
  }
  Thread started;
  bool failed = false;
  try {
    if (!rests && policy_->may_start(threads)) started = start();
  } catch (...) {  // the existing ones must do
    failed = true;
  }
  MutexLock lock(mutex_);
  growing_ = false;
  grown_.notify_all();
  if (failed) failed_ = Clock::now();
  if (started.joinable()) {
    failed_ = {};
    threads_.push_back(std::move(started));
  } else if (!rests) {
    return;
  }
  ready_.notify_one();
  policy_->grown(++allowed_, late);
}

// Called by one thread at a time, as `growing_` says.
Thread ThreadPool::start() {
  std::size_t thread = 0;
  {
    MutexLock lock(mutex_);
    thread = threads_.size();
    // Reserve first: a running thread that could not be stored would have to be waited for.
    threads_.reserve(std::bit_ceil(thread + 1));
    policy_->reserve(thread + 1);
  }
  return start_thread(policy_->what(), [this, thread] {
    name_this_thread(policy_->name());
    policy_->enter([this, thread] { serve(thread); });
  });
}

void ThreadPool::serve(std::size_t thread) noexcept {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && (queue_.empty() || running_ >= allowed_)) ready_.wait(mutex_);
    if (queue_.empty()) return;
    Task task = queue_.pop_front();
    ++running_;
    const auto start = Clock::now();
    const PoolPolicy::Late late = find_late(start);
    const bool short_of_threads = failed_ != Clock::time_point();
    policy_->began(thread, start);
    lock.unlock();
    grow(late);
    if (short_of_threads) warn();
    const bool waited = policy_->run(task.work);
    task.work = nullptr;
    const auto now = Clock::now();
    lock.lock();
    --running_;
    allowed_ = policy_->ended({thread, start, now, waited}, allowed_);
  }
}

void ThreadPool::warn() const noexcept {
  try {
    log_once(LogLevel::warning, std::string(policy_->what()) + " threads",
             std::string("no more threads for ") + policy_->what() +
                 " can be started: RLIMIT_NPROC, RLIMIT_AS or the container's pids.max; the run "
                 "continues with fewer");
  } catch (...) {
    return;  // no memory for the text
  }
}

}  // namespace penstock
