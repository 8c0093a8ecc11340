#include "pipeline/engine/make/workers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
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
  std::vector<Thread> threads;
  // Reserve first: a running thread that could not be stored would have to be waited for.
  threads.reserve(static_cast<std::size_t>(most));
  threads.push_back(start());
  MutexLock lock(mutex_);
  threads_ = std::move(threads);
}

Workers::~Workers() {
  std::vector<Thread> threads;
  MutexLock lock(mutex_);
  stopping_ = true;
  ready_.notify_all();
  while (growing_) grown_.wait(mutex_);
  threads.swap(threads_);
  lock.unlock();
}

int Workers::allowed() const {
  MutexLock lock(mutex_);
  return allowed_;
}

Thread Workers::start() {
  return start_thread("computing", [this] { serve_in_arena(); });
}

void Workers::submit(std::function<void()> work) {
  Growth growth;
  {
    MutexLock lock(mutex_);
    const auto now = Clock::now();
    queue_.push_back({std::move(work), now});
    // Nothing throws from here on, as the work was accepted.
    if (running_ < allowed_) ready_.notify_one();
    growth = find_growth(now);
  }
  grow(growth);
}

void Workers::look() {
  for (;;) {
    Growth growth;
    {
      MutexLock lock(mutex_);
      growth = find_growth(Clock::now());
    }
    if (!grow(growth)) return;
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
    const Growth growth = find_growth(start);
    const bool short_of_threads = failed_ != Clock::time_point();
    lock.unlock();
    grow(growth);
    if (short_of_threads) warn();
    task.work();
    task.work = nullptr;
    const auto now = Clock::now();
    if (by_quota_) ask_quota(now);
    lock.lock();
    busy_ += now - start;
    const std::optional<Idle> idle = shrink_if_idle(now);
    --running_;
    if (!idle) continue;
    lock.unlock();
    note(*idle);
    lock.lock();
  }
}

void Workers::warn() noexcept {
  log_once(LogLevel::warning, "computing threads",
           "no more threads for computing can be started: RLIMIT_NPROC, RLIMIT_AS or the "
           "container's pids.max; those that there are go on");
}

// The first tasks have a thread each, which has yet to take them. The caller releases the mutex,
// and calls `grow` with the result.
Workers::Growth Workers::find_growth(Clock::time_point now) noexcept {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  constexpr auto kPause = std::chrono::seconds(1);  // by then other threads may have ended
  const auto taken = static_cast<std::size_t>(std::max(allowed_ - running_, 0));
  if (growing_ || stopping_ || queue_.size() <= taken || allowed_ >= most_) return {};
  const auto waited = now - queue_[taken].since;
  if (waited < kMoment || consumers_waiting_.load(std::memory_order_relaxed) == 0) return {};
  if (static_cast<std::size_t>(allowed_) == threads_.size() && failed_ != Clock::time_point() &&
      now - failed_ < kPause)
    return {};
  growing_ = true;
  return {queue_.size() - taken, waited};
}

bool Workers::grow(const Growth& growth) noexcept {
  if (growth.groups == 0) return false;
  Thread started;
  bool there = false;
  {
    MutexLock lock(mutex_);
    there = static_cast<std::size_t>(allowed_) < threads_.size();
  }
  try {
    if (!there) started = start();
    there = true;
  } catch (...) {  // the existing ones must do
  }
  const auto now = Clock::now();
  MutexLock lock(mutex_);
  growing_ = false;
  grown_.notify_all();
  if (!there) {
    failed_ = now;
    return false;
  }
  if (started.joinable()) threads_.push_back(std::move(started));
  if (allowed_ >= most_) return false;  // the quota has changed meanwhile
  ready_.notify_one();
  const auto allowed = static_cast<std::size_t>(++allowed_);
  if (std::exchange(shrunk_, false))
    while_ = std::min(2 * while_, std::chrono::milliseconds(64000));
  begin_while(now);
  lock.unlock();
  log_->note("threads", allowed - 1, allowed, [growth] {
    return std::to_string(growth.groups) + " groups waited for one, the first " +
           in_ms(growth.waited) + ", and so did the consumer";
  });
  return true;
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
  const auto before = static_cast<std::size_t>(std::exchange(allowed_, most_));
  lock.unlock();
  log_->note("threads", before, static_cast<std::size_t>(most),
             [most] { return "the process may use " + std::to_string(most) + " CPUs now"; });
}

void Workers::begin_while(Clock::time_point now) {
  while_began_ = now;
  busy_ = {};
}

// Removes a thread if it is not needed, and returns why. The caller passes that to `note` once it
// has released the mutex.
std::optional<Workers::Idle> Workers::shrink_if_idle(Clock::time_point now) {
  if (consumers_waiting_.load(std::memory_order_relaxed) > 0) {
    begin_while(now);
    return std::nullopt;
  }
  const auto took = now - while_began_;
  if (allowed_ == 1 || took < while_) return std::nullopt;
  const double used = std::chrono::duration<double>(busy_) / std::chrono::duration<double>(took);
  begin_while(now);
  constexpr double kRoom = 0.9;
  if (used > kRoom * static_cast<double>(allowed_ - 1)) return std::nullopt;
  --allowed_;
  shrunk_ = true;
  return Idle{static_cast<std::size_t>(allowed_), took, used};
}

void Workers::note(const Idle& idle) noexcept {
  log_->note("threads", idle.left + 1, idle.left, [idle] {
    std::array<char, 80> text{};
    std::snprintf(text.data(), text.size(),
                  "for %.1f s the consumer never waited, and %.2f were busy",
                  std::chrono::duration<double>(idle.took).count(), idle.used);
    return std::string(text.data());
  });
}

}  // namespace penstock
