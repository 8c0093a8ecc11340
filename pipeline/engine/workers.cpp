#include "pipeline/engine/workers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include <tbb/global_control.h>

#include "pipeline/engine/memory.h"

namespace penstock {
namespace {

/// Work that is enqueued from outside gets one worker less than oneTBB's limit, which by default is
/// the number of CPUs. The arenas bound their own; the process-wide limit only must not be in their
/// way.
void allow_workers() {
  static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1024);
  (void)limit;
}

}  // namespace

Workers::Workers(int most, bool by_quota, const std::atomic<int>& consumers_waiting,
                 std::shared_ptr<TuningLog> log)
    : size_(most),
      by_quota_(by_quota),
      consumers_waiting_(consumers_waiting),
      log_(std::move(log)),
      arena_(most, 0),
      most_(most),
      asked_(Clock::now()),
      while_began_(asked_) {
  allow_workers();
}

int Workers::allowed() const {
  MutexLock lock(mutex_);
  return allowed_;
}

// What runs outlives the run that it is of, which may end within its last piece of work.
void Workers::enqueue(std::function<void()> work) {
  arena_.enqueue([self = shared_from_this(), work = std::move(work)] { self->run(work); });
}

void Workers::submit(std::function<void()> work) {
  MutexLock lock(mutex_);
  if (running_ < allowed_) {
    enqueue(std::move(work));
    ++running_;
    return;
  }
  const auto now = Clock::now();
  queue_.push_back({std::move(work), now});
  grow_if_late(now);
}

void Workers::stop() {
  {
    MutexLock lock(mutex_);
    while (running_ > 0) idle_.wait(mutex_);
  }
  arena_.terminate();
}

void Workers::look() {
  MutexLock lock(mutex_);
  while (grow_if_late(Clock::now())) {
  }
}

// A task goes on with what waits, but not for long, so that oneTBB may give the thread to another
// run in between.
void Workers::run(std::function<void()> work) noexcept {
  constexpr auto kTurn = std::chrono::milliseconds(20);
  const auto began = Clock::now();
  for (auto start = began;;) {
    work();
    const auto now = Clock::now();
    try {
      if (by_quota_) ask_quota(now);
    } catch (...) {
      // No memory to ask with: what was said last holds until the next time.
    }
    {
      MutexLock lock(mutex_);
      busy_ += now - start;
      shrink_if_idle(now);
      if (queue_.empty() || running_ > allowed_) {
        if (--running_ == 0) idle_.notify_all();
        return;
      }
      work = queue_.pop_front().work;
      grow_if_late(now);
    }
    start = now;
    if (now - began < kTurn) continue;
    try {
      enqueue(work);
      return;
    } catch (...) {
      continue;  // no memory for a task
    }
  }
}

bool Workers::grow_if_late(Clock::time_point now) {
  constexpr auto kMoment = std::chrono::milliseconds(2);
  if (queue_.empty() || allowed_ >= most_) return false;
  const auto waited = now - queue_.front().since;
  if (waited < kMoment || consumers_waiting_.load(std::memory_order_relaxed) == 0) return false;
  try {
    enqueue(queue_.front().work);
  } catch (...) {
    return false;
  }
  const auto groups = queue_.size();
  queue_.pop_front();
  ++running_;
  ++allowed_;
  if (std::exchange(shrunk_, false))
    while_ = std::min(2 * while_, std::chrono::milliseconds(64000));
  begin_while(now);
  log_->note("threads", static_cast<std::size_t>(allowed_ - 1), static_cast<std::size_t>(allowed_),
             [groups, waited] {
               return std::to_string(groups) + " groups waited for one, the first " +
                      in_ms(waited) + ", and so did the consumer";
             });
  return true;
}

void Workers::ask_quota(Clock::time_point now) {
  {
    MutexLock lock(mutex_);
    if (now - asked_ < std::chrono::seconds(1)) return;
    asked_ = now;
  }
  const int most = std::min(size_, usable_cpus());
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
