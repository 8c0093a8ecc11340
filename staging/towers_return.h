// Whether the towers of a feed return memory to the feed's runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/core/batch_holder.h"
#include "staging/area.h"

namespace penstock {

/// The towers that hold the batches of a feed's runs. The runs share it, and may outlive the feed.
class TowersReturn final : public BatchHolder {
 public:
  explicit TowersReturn(TimeSource& clock) : clock_(clock) {}
  bool returns_memory() const noexcept override {
    MutexLock lock(mutex_);
    if (areas_.empty()) return false;
    constexpr std::int64_t kMoment = 1'000'000'000;
    if (under_way_ > 0 && clock_.now() - left_ns_ < kMoment) return true;
    return std::any_of(areas_.begin(), areas_.end(),
                       [](StagingState* area) { return area->returns_memory(); });
  }
  bool may_return() const noexcept override {
    MutexLock lock(mutex_);
    return under_way_ > 0 || std::ranges::any_of(areas_, &StagingState::has_memory);
  }
  /// Note that a batch left its run for a tower's area, and that it arrived there.
  void left() noexcept {
    left_ns_.store(clock_.now(), std::memory_order_release);
    under_way_.fetch_add(1, std::memory_order_acq_rel);
  }
  void arrived() noexcept { under_way_.fetch_sub(1, std::memory_order_acq_rel); }
  /// Sets the towers' areas. Without areas, no memory returns.
  void set(std::vector<StagingState*> areas) noexcept {
    MutexLock lock(mutex_);
    areas_ = std::move(areas);
  }

 private:
  TimeSource& clock_;
  std::atomic<std::int64_t> left_ns_{0};  // when one left last
  std::atomic<int> under_way_{0};
  mutable Mutex mutex_;
  std::vector<StagingState*> areas_ GUARDED_BY(mutex_);
};

}  // namespace penstock
