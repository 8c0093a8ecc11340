#include "pipeline/engine/activity.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

thread_local const AtWork* working = nullptr;  // whom this thread is at work for

}  // namespace

void Activity::group_began() noexcept {
  at_work_.fetch_add(1, std::memory_order_acq_rel);
  advanced();
}

int Activity::take_off(std::atomic<int>& count) noexcept {
  const int before = count.fetch_sub(1, std::memory_order_seq_cst);
  if (before <= 0) {
    count.fetch_add(1, std::memory_order_seq_cst);
    lost_count_();
  }
  return before;
}

bool Activity::told_to_stop() const noexcept {
  return working != nullptr && &working->activity_ == this && working->stop_ != nullptr &&
         working->stop_->load(std::memory_order_acquire);
}

AtWork::AtWork(Activity& activity, const std::atomic<bool>* stop) noexcept
    : activity_(activity), stop_(stop), outer_(std::exchange(working, this)) {
  activity_.at_work_.fetch_add(1, std::memory_order_acq_rel);
}
AtWork::~AtWork() {
  activity_.take_off(activity_.at_work_);
  working = outer_;
}
bool AtWork::here() noexcept {
  return working != nullptr;
}

Resting::Resting() noexcept {
  if (working != nullptr) working->activity_.take_off(working->activity_.at_work_);
}
Resting::~Resting() {
  if (working != nullptr) {
    working->activity_.at_work_.fetch_add(1, std::memory_order_acq_rel);
  }
}

bool QuietTimer::over(const Activity& activity) noexcept {
  const std::uint64_t advances = activity.advances();
  if (!activity.quiet() || advances != std::exchange(advances_, advances)) {
    renew();
    return false;
  }
  if (quiet_since_ == Clock::time_point()) quiet_since_ = Clock::now();
  return Clock::now() - quiet_since_ > limit_;
}

}  // namespace penstock
