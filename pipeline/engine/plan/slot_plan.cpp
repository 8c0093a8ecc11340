#include "pipeline/engine/plan/slot_plan.h"

#include <algorithm>

#include "pipeline/core/sizes.h"

namespace penstock {

SlotPlan::SlotPlan(const Plan& plan, const RunOptions& options, std::shared_ptr<Memory> memory,
                   std::shared_ptr<Waker> waker)
    : plan_(plan), options_(options), memory_(std::move(memory)), waker_(std::move(waker)) {
  for (const PlannedStage& stage : plan_.stages()) places_ += stage.batches ? stage.uses : 0;
  std::uint64_t least = 0;  // including spare rows
  for (const PlannedStage& stage : plan_.stages()) {
    if (!stage.batches || !stage.batches->in_place) continue;
    least = saturating_sum(least, saturating_product(stage.uses, layout_for(*stage.node).bytes));
  }
  memory_->set_least_slots(least);
}

std::size_t SlotPlan::usual(const Node& node, std::uint64_t slot_bytes) const {
  // Many small batches are made ahead, so that waking a thread is worthwhile.
  constexpr std::uint64_t kAhead = 4U << 20;
  std::size_t wanted = std::clamp<std::uint64_t>(kAhead / slot_bytes, 4, 32);
  if (const std::int64_t ahead = plan_.find(node)->prefetch; ahead > 0) {
    wanted = static_cast<std::size_t>(ahead) + 1;
  }
  if (options_.slots > 0) wanted = static_cast<std::size_t>(options_.slots);
  const std::uint64_t share = plan_.shares().slots / places_;
  return std::clamp<std::size_t>(share / slot_bytes, 1, wanted);
}

std::size_t SlotPlan::most(const Node& node, std::uint64_t slot_bytes) const {
  constexpr std::uint64_t kMost = 64;
  const std::size_t before = usual(node, slot_bytes);
  if (options_.slots > 0 || plan_.find(node)->prefetch > 0) return before;
  const std::uint64_t share = plan_.shares().slots / places_;
  return std::max<std::size_t>(before, std::min(share / slot_bytes, kMost));
}

// Each failed element that is skipped leaves a gap. A few spare rows, if there is room for
// them, close gaps at no cost.
SlotLayout SlotPlan::layout_for(const Node& node) const {
  const BatchInfo& batches = *plan_.find(node)->batches;
  const std::int64_t rows = batches.rows;
  if (options_.on_error == OnError::skip && rows > 1) {
    SlotLayout spare(batches.element, rows, std::clamp<std::int64_t>(rows / 16, 1, 8));
    if (usual(node, spare.bytes) > 1) return spare;
  }
  return {batches.element, rows};
}

std::shared_ptr<SlotPool> SlotPlan::pool(const Node& node, std::uint64_t path) {
  MutexLock lock(mutex_);
  std::shared_ptr<SlotPool>& known = pools_[{&node, path}];
  if (!known) {
    SlotLayout layout = layout_for(node);
    const std::size_t slots = usual(node, layout.bytes);
    known = std::make_shared<SlotPool>(std::move(layout), slots, memory_, options_.slot_allocator,
                                       waker_);
  }
  return known;
}

bool SlotPlan::drop_free(std::size_t left) noexcept {
  const auto next = [this](const SlotPool* last) noexcept -> std::shared_ptr<SlotPool> {
    const MutexLock lock(mutex_);
    auto at = pools_.begin();
    if (last != nullptr) {
      while (at->second.get() != last) ++at;  // pools stay
      ++at;
    }
    return at != pools_.end() ? at->second : nullptr;
  };
  bool dropped = false;
  for (std::shared_ptr<SlotPool> pool = next(nullptr); pool != nullptr; pool = next(pool.get()))
    dropped = pool->drop_free(left) || dropped;
  return dropped;
}

}  // namespace penstock
