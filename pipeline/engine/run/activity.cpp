#include "pipeline/engine/run/activity.h"

namespace penstock {
namespace {

thread_local AtWork* working = nullptr;  // the innermost guard of this thread

}  // namespace

void Activity::began() noexcept {
  at_work_.fetch_add(1, std::memory_order_acq_rel);
  advanced();
}

void Activity::ended() noexcept {
  const bool last = take_off(at_work_) == 1;
  if (last && consumers_waiting_.load(std::memory_order_acquire) > 0 && quiet()) became_quiet_();
}

// A thread that stops resting counts as working before it leaves the list. So what is read under
// the lock cannot change without an event that one of the resting threads waits for.
bool Activity::quiet() const noexcept {
  MutexLock lock(mutex_);
  if (at_work() > 0 || consumers_waiting_.load(std::memory_order_acquire) == 0 ||
      (holder_ != nullptr && holder_->returns_memory())) {
    return false;
  }
  for (const Resting* each = resting_; each != nullptr; each = each->next_)
    if (each->events_.load(std::memory_order_acquire) != each->seen_) return false;
  return true;
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
    if (&work->activity_ == this && !work->consumes_) return true;
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

AtWork::AtWork(Activity& activity, const std::atomic<bool>* stop, bool consumes) noexcept
    : activity_(activity),
      stop_(stop),
      consumes_(consumes),
      outer_(std::exchange(working, this)),
      counted_(outer_ != nullptr && &outer_->activity_ == &activity ? outer_->counted_ : this) {
  if (counted_ == this) activity_.at_work_.fetch_add(1, std::memory_order_acq_rel);
}
AtWork::~AtWork() {
  working = outer_;
  if (counted_ == this) activity_.ended();
}

Resting::Resting(const std::atomic<std::uint64_t>& events, std::uint64_t seen) noexcept
    : work_(working != nullptr ? working->counted_ : nullptr), events_(events), seen_(seen) {
  if (work_ == nullptr) return;
  Activity& activity = work_->activity_;
  {
    MutexLock lock(activity.mutex_);
    next_ = std::exchange(activity.resting_, this);
  }
  activity.ended();
}
Resting::~Resting() {
  if (work_ == nullptr) return;
  Activity& activity = work_->activity_;
  activity.at_work_.fetch_add(1, std::memory_order_acq_rel);
  MutexLock lock(activity.mutex_);
  Resting** link = &activity.resting_;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

}  // namespace penstock
