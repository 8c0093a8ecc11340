#include "pipeline/engine/segment/batch_results.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace penstock {

// Fresh memory is expensive. So while there is enough to work on, wait until a large slot comes
// back instead of making another one.
SlotPool::Make BatchResults::willing() const {
  constexpr std::size_t kLarge = 4U << 20;
  const bool wait = slots_->layout().bytes >= kLarge && run_.activity.has_plenty();
  return wait ? SlotPool::Make::if_must : SlotPool::Make::within;
}

// Adds slots when reads are slow. Returns false if there cannot be more, or not yet.
bool BatchResults::widen() {
  const std::size_t before = slots_->widen(run_.slots.most(owner_.node, slots_->layout().bytes));
  if (before == 0) return false;
  run_.tuning.note("slots", before, slots_->limit(),
                   [] { return "all were in use while threads waited for reads"; });
  return true;
}

// Adds a slot when an element takes so long that the batches behind it are done. Returns false if
// there cannot be more.
bool BatchResults::widen_behind_slow(const Demand& demand) {
  if (!demand.threads_idle || !assembler_.waits_for_head()) return false;
  const SlotLayout& layout = slots_->layout();
  const std::uint64_t bytes = layout.bytes + most_text_;
  const std::size_t behind =
      kBehindSlow * demand.group_limit / static_cast<std::size_t>(layout.rows);
  const std::size_t most = run_.slots.usual(owner_.node, bytes) + behind;
  if (!slots_->add_one(std::min(run_.slots.most(owner_.node, bytes), most))) return false;
  const std::size_t now = slots_->limit();
  if (now >= 2 * slots_noted_) {
    run_.tuning.note("slots", std::exchange(slots_noted_, now), now,
                     [] { return "all were in use behind an element that takes long"; });
  }
  return true;
}

// Makes fewer batches ahead if texts make them larger.
void BatchResults::narrow() {
  const std::uint64_t bytes = assembler_.largest();
  if (slots_->layout().element.is_fixed_size() || bytes <= 2 * most_text_) return;
  most_text_ = bytes;
  slots_->narrow(run_.slots.usual(owner_.node, slots_->layout().bytes + bytes));
}

// Returns how many elements a group may have, so that every thread finds two groups in the slots.
std::size_t BatchResults::most_in_group() const {
  const std::size_t rows = slots_->limit() * static_cast<std::size_t>(slots_->layout().rows);
  return std::max<std::size_t>(rows / (2 * static_cast<std::size_t>(run_.state.threads())), 1);
}

// Returns null, too, if a slot was claimed that has yet to be made.
Ref<Slot> BatchResults::take_slot(SlotPool::Make make) {
  if (added_) return std::move(added_);
  SlotPool::Claim claim = slots_->claim(make);
  claimed_ = claim.to_make;
  return std::move(claim.slot);
}

std::size_t BatchResults::room(const Demand& demand) {
  const std::size_t most = most_in_group();
  const bool held_up = demand.crowded || assembler_.held_up();
  const bool blocked = demand.consumer_waits && assembler_.empty();
  std::size_t room = assembler_.room();
  while (room < std::min(demand.wanted, most) && !held_up) {
    // Only if the consumer waits and yet keeps every slot, one more may be made.
    const bool beyond = room == 0 && blocked;
    const bool hollow = assembler_.next_is_hollow();
    // Elements to be made and elements to be left out are handed over separately.
    if (room > 0 && hollow == assembler_.stretch().made) break;
    if (demand.alone && !blocked && !hollow) break;
    if (hollow) {
      assembler_.open_hollow();
      room += static_cast<std::size_t>(slots_->layout().rows);
      continue;
    }
    Ref<Slot> slot = take_slot(beyond ? SlotPool::Make::beyond : willing());
    if (claimed_) return 0;
    if (!slot && room == 0 && (demand.reads_lag ? widen() : widen_behind_slow(demand))) {
      continue;
    }
    if (!slot) break;
    assembler_.open(std::move(slot));
    room += static_cast<std::size_t>(slots_->layout().rows);
  }
  if (room > 0 && !held_up) {
    without_slot_ = false;
    const PartialBatch::Stretch stretch = assembler_.stretch();
    return std::min({room, most, stretch.rows, stretch.made ? demand.wanted : SIZE_MAX});
  }
  without_slot_ = without_slot_ || blocked;
  return 0;
}

void BatchResults::complete(Group& group) {
  assembler_.complete(group);
  groups().give(group);
  narrow();
  count_texts();
}

// The slots go from here to the stages up to the next ones that make batches.
std::string BatchResults::holders() const {
  std::unordered_set<const Node*> behind{&owner_.node};
  std::string labels;
  for (const PlannedStage& stage : run_.state.plan().stages()) {
    const auto is_behind = [&](const NodePtr& input) { return behind.contains(input.get()); };
    if (std::ranges::none_of(stage.node->inputs(), is_behind)) continue;
    if (stage.node->holds_values()) labels += ", " + stage.label;
    if (stage.execution != Execution::in_place) behind.insert(stage.node);
  }
  return labels;
}

// Which of them has the slots is not known: a tensor that the caller made may keep one.
Status BatchResults::no_slot() const {
  const std::string stages = holders();
  std::string by = "the caller";
  std::string advice = "release a batch before asking for the next: copy what is kept, or ";
  if (!run_.activity.caller_may_return()) {
    by = "a step of the feed that takes more";
    advice = "";
  } else if (!stages.empty()) {
    by += " or by" + stages.substr(1);
    advice += "let stages hold fewer elements, or ";
  }
  return Error(ErrorCode::resource_exhausted,
               "all " + std::to_string(slots_->made()) + " batch slots are held by " + by +
                   ", and the memory budget has no room for another of " +
                   std::to_string(slots_->layout().bytes) + " bytes; " + advice +
                   "raise memory_bytes",
               Provenance{{}, -1, -1, owner_.label});
}

}  // namespace penstock
