// Results in the form of batches in recycled slots.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "pipeline/engine/plan/slot_plan.h"
#include "pipeline/engine/run/activity.h"
#include "pipeline/engine/run/run_state.h"
#include "pipeline/engine/run/tuning_log.h"
#include "pipeline/engine/segment/batch_assembler.h"
#include "pipeline/engine/segment/results.h"
#include "pipeline/engine/segment/segment_owner.h"

namespace penstock {

/// Results that are batches. Decides how many slots they use.
class BatchResults final : public Results {
 public:
  static constexpr std::size_t kMostInGroup = 8192;

  /// The parts of the run that it uses.
  struct Services {
    const RunState& state;
    const Activity& activity;
    const SlotPlan& slots;
    TuningLog& tuning;
  };
  BatchResults(const Services& services, const SegmentOwner& owner, std::shared_ptr<SlotPool> slots,
               BatchAssembler assembler)
      : run_(services), owner_(owner), slots_(std::move(slots)), assembler_(std::move(assembler)) {}

  const SlotLayout* layout() const noexcept override { return &slots_->layout(); }
  std::size_t room(const Demand& demand) override;
  SlotPool* claimed() override { return std::exchange(claimed_, false) ? slots_.get() : nullptr; }
  void add_slot(Ref<Slot> slot) override { added_ = std::move(slot); }
  bool skips_next() override { return !assembler_.stretch().made; }
  void skip(std::uint64_t first, std::size_t count) override {
    assembler_.skip(first, count);
    count_texts();
  }
  void admit(Group& group) override { assembler_.admit(group); }
  void complete(Group& group) override;
  bool has_output() const override { return assembler_.has_output(); }
  bool waits_for_head() const override { return assembler_.waits_for_head(); }
  bool is_first(const Group& group) const override { return assembler_.is_first(group); }
  void end() override {
    assembler_.end();
    count_texts();
  }
  Ref<Slot> dropped() noexcept override { return assembler_.dropped(); }
  std::size_t take(std::span<ElementRef> out) override { return assembler_.take(out); }
  bool drained() const override { return assembler_.drained(); }
  const SlotPool* lacks_slot() const override { return without_slot_ ? slots_.get() : nullptr; }
  Status no_slot() const override;
  void settle() override { assembler_.settle(); }
  std::uint64_t consumed() const noexcept override { return assembler_.consumed(); }
  std::uint64_t skipped() const noexcept override { return assembler_.skipped(); }
  void save(StateWriter& state) const override { state.put(assembler_.delivered()); }
  void restore(StateReader& state, std::uint64_t consumed, std::uint64_t skipped) override {
    assembler_.restore(consumed, skipped, state.get());
  }

 private:
  SlotPool::Make willing() const;
  Ref<Slot> take_slot(SlotPool::Make make);
  std::size_t most_in_group() const;
  /// Returns the labels of the stages that may hold the slots, each behind a comma.
  std::string holders() const;
  bool widen();
  bool widen_behind_slow(const Demand& demand);
  void narrow();
  /// Counts the texts of batches before they are taken.
  void count_texts() noexcept { owner_.held.texts.raise(assembler_.most_text()); }

  const Services run_;
  const SegmentOwner owner_;
  const std::shared_ptr<SlotPool> slots_;
  BatchAssembler assembler_;
  // Bytes of text that a batch is assumed to have in addition to its slot.
  std::uint64_t most_text_ = 0;
  std::size_t slots_noted_ = slots_->limit();  // each doubling is noted
  bool without_slot_ = false;                  // no slot was available, so it waits for one
  bool claimed_ = false;                       // a slot was claimed, and is being made
  Ref<Slot> added_;                            // it was made
};

}  // namespace penstock
