#include "pipeline/engine/make/workers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include <penstock/internal/start_thread.h>
#include <penstock/log.h>

#include "pipeline/core/machine.h"
#include "pipeline/core/thread_name.h"

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

}  // namespace

Workers::Workers(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
                 std::shared_ptr<TuningLog> log)
    : size_(most),
      by_quota_(by_quota),
      consumers_waiting_(consumers_waiting),
      log_(std::move(log)),
      arena_(most, static_cast<unsigned>(most)),
      has_arena_(initialize(arena_)),
      most_(most),
      asked_(Clock::now()),
      while_began_(asked_) {
  MutexLock lock(mutex_);
  // Reserve first: a running thread that could not be stored would have to be waited for.
  threads_.reserve(static_cast<std::size_t>(most));
  start();
}

Workers::~Workers() {
  MutexLock lock(mutex_);
  stopping_ = true;
  ready_.notify_all();
  std::vector<Thread> threads = std::move(threads_);
  lock.unlock();
}

int Workers::allowed() const {
  MutexLock lock(mutex_);
  return allowed_;
}

void Workers::start() {
  threads_.push_back(start_thread("computing", [this] { serve_in_arena(); }));
}

void Workers::submit(std::function<void()> work) {
  MutexLock lock(mutex_);
  const auto now = Clock::now();
  queue_.push_back({std::move(work), now});
  // Nothing throws from here on, as the work was accepted.
  if (running_ < allowed_) ready_.notify_one();
  grow_if_late(now);
}

void Workers::look() {
  MutexLock lock(mutex_);
  while (grow_if_late(Clock::now())) {
  }
}

void Workers::serve_in_arena() noexcept {
  name_this_thread("penstock-work");
  try {
    if (has_arena_) return arena_.execute([this] { serve(); });
  } catch (...) {
    // Continue as without an arena, which only callables that use oneTBB notice.
  }
  serve();
}

void Workers::serve() noexcept {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && (queue_.empty() || running_ >= allowed_)) ready_.wait(mutex_);
    if (queue_.empty()) return;
    Task task = queue_.pop_front();
    ++running_;
    const auto start = Clock::now();
    grow_if_late(start);
    const bool short_of_threads = failed_ != Clock::time_point();
    lock.unlock();
    if (short_of_threads) warn();
    task.work();
    task.work = nullptr;
    const auto now = Clock::now();
    if (by_quota_) ask_quota(now);
    lock.lock();
    busy_ += now - start;
    shrink_if_idle(now);
    --running_;
  }
}

void Workers::warn() noexcept {
  log_once(LogLevel::warning, "computing threads",
           "no more threads for computing can be started: RLIMIT_NPROC, RLIMIT_AS or the "
           "container's pids.max; those that there are go on");
}

// The first tasks have a thread each, which has yet to take them.
bool Workers::grow_if_late(Clock::time_point now) noexcept {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  const auto taken = static_cast<std::size_t>(std::max(allowed_ - running_, 0));
  if (queue_.size() <= taken || allowed_ >= most_) return false;
  const auto waited = now - queue_[taken].since;
  if (waited < kMoment || consumers_waiting_.load(std::memory_order_relaxed) == 0) return false;
  if (!has_thread_for_more(now)) return false;
  ++allowed_;
  if (std::exchange(shrunk_, false))
    while_ = std::min(2 * while_, std::chrono::milliseconds(64000));
  begin_while(now);
  log_->note("threads", static_cast<std::size_t>(allowed_ - 1), static_cast<std::size_t>(allowed_),
             [groups = queue_.size() - taken, waited] {
               return std::to_string(groups) + " groups waited for one, the first " +
                      in_ms(waited) + ", and so did the consumer";
             });
  return true;
}

bool Workers::has_thread_for_more(Clock::time_point now) noexcept {
  if (static_cast<std::size_t>(allowed_) < threads_.size()) {
    ready_.notify_one();
    return true;
  }
  constexpr auto kPause = std::chrono::seconds(1);  // by then other threads may have ended
  if (failed_ != Clock::time_point() && now - failed_ < kPause) return false;
  try {
    start();
    return true;
  } catch (...) {
    failed_ = now;
  }
  return false;
}

void Workers::ask_quota(Clock::time_point now) noexcept {
  {
    MutexLock lock(mutex_);
    if (now - asked_ < std::chrono::seconds(1)) return;
    asked_ = now;
  }
  int most = 0;
  try {
    most = std::min(size_, usable_cpus());
  } catch (...) {
    return;  // no memory to ask: the last answer holds until next time
  }
  MutexLock lock(mutex_);
  most_ = most;
  if (allowed_ <= most_) return;
  log_->note("threads", static_cast<std::size_t>(allowed_), static_cast<std::size_t>(most_),
             [most] { return "the process may use " + std::to_string(most) + " CPUs now"; });
  allowed_ = most_;
}

void Workers::begin_while(Clock::time_point now) {
  while_began_ = now;
  busy_ = {};
}

void Workers::shrink_if_idle(Clock::time_point now) {
  if (consumers_waiting_.load(std::memory_order_relaxed) > 0) {
    begin_while(now);
    return;
  }
  const auto took = now - while_began_;
  if (allowed_ == 1 || took < while_) return;
  const double used = std::chrono::duration<double>(busy_) / std::chrono::duration<double>(took);
  begin_while(now);
  constexpr double kRoom = 0.9;
  if (used > kRoom * static_cast<double>(allowed_ - 1)) return;
  --allowed_;
  shrunk_ = true;
  log_->note("threads", static_cast<std::size_t>(allowed_ + 1), static_cast<std::size_t>(allowed_),
             [took, used] {
               std::array<char, 80> text{};
               std::snprintf(text.data(), text.size(),
                             "for %.1f s the consumer never waited, and %.2f were busy",
                             std::chrono::duration<double>(took).count(), used);
               return std::string(text.data());
             });
}

}  // namespace penstock
