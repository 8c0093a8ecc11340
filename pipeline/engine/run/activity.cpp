#include "pipeline/engine/run/activity.h"

#include <unistd.h>

#include "pipeline/core/waits.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

thread_local AtWork* working = nullptr;  // the innermost guard of this thread

pid_t this_thread() noexcept {
  thread_local const pid_t id = ::gettid();
  return id;
}

}  // namespace

void Activity::group_began() noexcept {
  at_work_.fetch_add(1, std::memory_order_acq_rel);
  advanced();
}

Counted Activity::consumer_waits() noexcept {
  consumer_.store(this_thread(), std::memory_order_release);
  return Counted(consumers_waiting_);
}

bool Activity::has_runnable_threads() const noexcept {
  const auto is_runnable = [](pid_t thread) {
    return thread != 0 && thread != this_thread() && !waits(thread);
  };
  if (is_runnable(consumer_.load(std::memory_order_acquire))) return true;
  for (std::size_t i = 0;; ++i) {  // not under the lock: each reads a file
    const pid_t thread = arranging_thread(i);
    if (thread == 0) return false;
    if (is_runnable(thread)) return true;
  }
}

pid_t Activity::arranging_thread(std::size_t i) const noexcept {
  MutexLock lock(mutex_);
  const Arranging* each = arranging_;
  for (; each != nullptr && i > 0; --i) each = each->next_;
  return each == nullptr ? 0 : each->thread_;
}

int Activity::take_off(std::atomic<int>& count) noexcept {
  const int before = count.fetch_sub(1, std::memory_order_seq_cst);
  if (before <= 0) {
    count.fetch_add(1, std::memory_order_seq_cst);
    lost_count_();
  }
  return before;
}

bool Activity::works_here() const noexcept {
  for (const AtWork* work = working; work != nullptr; work = work->outer_)
    if (&work->activity_ == this) return true;
  return false;
}

bool Activity::arranges_here() const noexcept {
  return working != nullptr && &working->activity_ == this && working->stop_ != nullptr;
}

bool Activity::told_to_stop() const noexcept {
  for (const AtWork* work = working; work != nullptr; work = work->outer_)
    if (&work->activity_ == this && work->stop_ != nullptr &&
        work->stop_->load(std::memory_order_acquire))
      return true;
  return false;
}

AtWork::AtWork(Activity& activity, const std::atomic<bool>* stop) noexcept
    : activity_(activity), stop_(stop), outer_(std::exchange(working, this)) {
  activity_.at_work_.fetch_add(1, std::memory_order_acq_rel);
}
AtWork::~AtWork() {
  activity_.take_off(activity_.at_work_);
  working = outer_;
}

Arranging::Arranging(Activity& activity) noexcept : activity_(activity), thread_(this_thread()) {
  MutexLock lock(activity_.mutex_);
  next_ = std::exchange(activity_.arranging_, this);
}
Arranging::~Arranging() {
  MutexLock lock(activity_.mutex_);
  Arranging** link = &activity_.arranging_;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

Resting::Resting() noexcept : work_(working != nullptr && !working->rests_ ? working : nullptr) {
  if (work_ == nullptr) return;
  work_->rests_ = true;
  work_->activity_.take_off(work_->activity_.at_work_);
}
Resting::~Resting() {
  if (work_ == nullptr) return;
  work_->rests_ = false;
  work_->activity_.at_work_.fetch_add(1, std::memory_order_acq_rel);
}

bool QuietTimer::over(const Activity& activity, std::chrono::milliseconds limit) noexcept {
  const Quiet found = quiet(activity, limit);
  return found == Quiet::yes ||
         (found == Quiet::unless_runnable && !activity.has_runnable_threads());
}

QuietTimer::Quiet QuietTimer::quiet(const Activity& activity,
                                    std::chrono::milliseconds limit) noexcept {
  const std::uint64_t advances = activity.advances();
  if (!activity.quiet() || advances != std::exchange(advances_, advances)) {
    renew();
    return Quiet::no;
  }
  if (quiet_since_ == Clock::time_point()) quiet_since_ = Clock::now();
  constexpr std::chrono::seconds kLonger(2);
  const auto quiet = Clock::now() - quiet_since_;
  return quiet <= limit ? Quiet::no : quiet > limit + kLonger ? Quiet::yes : Quiet::unless_runnable;
}

}  // namespace penstock
