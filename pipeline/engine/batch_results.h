// Batches in recycled slots.
#pragma once

#include <chrono>
#include <memory>

#include "pipeline/engine/activity.h"
#include "pipeline/engine/batch_assembler.h"
#include "pipeline/engine/results.h"

namespace penstock {

class Run;

/// Results that are batches, and how many slots they have.
class BatchResults final : public Results {
 public:
  BatchResults(Run& run, const Node& owner, std::shared_ptr<SlotPool> slots,
               BatchAssembler assembler)
      : run_(run), owner_(owner), slots_(std::move(slots)), assembler_(std::move(assembler)) {}

  const SlotLayout* layout() const noexcept override { return &slots_->layout(); }
  std::size_t room(const Demand& demand) override;
  void admit(Group& group) override { assembler_.admit(group); }
  void complete(Group& group) override;
  bool is_first(const Group& group) const override { return assembler_.is_first(group); }
  void end() override { assembler_.end(); }
  std::size_t take(std::span<ElementRef> out) override { return assembler_.take(out); }
  bool drained() const override { return assembler_.drained(); }
  Status stuck() override;
  void settle() override { assembler_.settle(); }
  std::uint64_t consumed() const noexcept override { return assembler_.consumed(); }
  std::uint64_t skipped() const noexcept override { return assembler_.skipped(); }
  void save(StateWriter& state) const override { state.put(assembler_.delivered()); }
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override {
    assembler_.restore(consumed, skipped, state.get());
  }

 private:
  SlotPool::Make willing() const;
  bool widen();
  void narrow();

  Run& run_;
  const Node& owner_;
  const std::shared_ptr<SlotPool> slots_;
  BatchAssembler assembler_;
  std::uint64_t most_text_ = 0;  // bytes that a batch was taken to have beside its slot
  bool without_slot_ = false;    // and so waiting
  // Long, because a batch may be held by another thread of the caller's.
  QuietTimer slot_timer_{std::chrono::seconds(2)};
};

}  // namespace penstock
