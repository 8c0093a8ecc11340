#include "pipeline/engine/segment/puller.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <penstock/internal/slow_work.h>

#include "pipeline/stage/support.h"

namespace penstock {

void Snapshots::add(std::uint64_t sequence, std::string position) {
  snapshots_.push_back({sequence, std::move(position), {}});
}

void Snapshots::note(std::span<const ElementRef> items) {
  if (!free_order_) return;
  for (const ElementRef& item : items) snapshots_.back().ordinals.push_back(item.ordinal);
}

std::string Snapshots::trim(std::uint64_t consumed) {
  std::string memory;
  while (counts(1, consumed)) memory = snapshots_.pop_front().position;
  return memory;
}

void Snapshots::save(StateWriter& state, std::uint64_t consumed) const {
  state.put(snapshots_.empty() ? 0 : 1);
  if (snapshots_.empty()) return;
  std::size_t last = 0;
  while (counts(last + 1, consumed)) ++last;
  const Snapshot& snapshot = snapshots_[last];
  const std::uint64_t passed = consumed - snapshot.sequence;
  state.put(passed);
  for (std::uint64_t i = 0; free_order_ && i < passed; ++i) state.put(snapshot.ordinals[i]);
  state.put_bytes(snapshot.position);
}

std::string Puller::position(std::string reused) const {
  StateWriter state(std::move(reused));
  if (free_order_) {
    state.put(had_.size());
    for (const std::uint64_t ordinal : had_) state.put(ordinal);
  }
  input_->save(state);
  return state.take();
}

void Puller::restore(StateReader& state, std::uint64_t consumed, Snapshots* kept) {
  sequence_ = consumed;
  if (state.get() == 0) return;
  const std::uint64_t passed = state.get();
  for (std::uint64_t i = 0; free_order_ && i < passed; ++i) had_.insert(state.get());
  const std::string_view position = state.get_bytes();
  if (kept != nullptr) kept->add(consumed - passed, std::string(position));
  StateReader input(position);
  if (free_order_) {
    for (std::uint64_t left = input.get(); left > 0; --left) had_.insert(input.get());
  }
  input_->restore(input);
  if (!free_order_ && passed > 0) discard(passed);
}

void Puller::discard(std::size_t count) {
  slow_work("elements are put in order");
  if (!exact_) return input_->discard(count);
  for (; count > 0; --count) input_->discard(1);
}

void Puller::pull(Group& group, std::size_t wanted) {
  slow_work("elements are put in order");
  group.first = sequence_;
  if (group.items.size() < wanted) {
    group.items = std::vector<ElementRef>(std::bit_ceil(wanted));  // groups grow gradually
  }
  try {
    while (group.count < wanted) {
      const std::size_t asked = std::min(wanted - group.count, exact_ ? 1 : kBlock);
      const std::span<ElementRef> room(group.items.data() + group.count, asked);
      const std::size_t pulled = input_->pull(room);
      // Stages such as `filter` leave behind what they drop. It would take memory until the group
      // is used again.
      for (ElementRef& dropped : room.subspan(pulled)) dropped = ElementRef();
      group.count += had_.empty() ? pulled : drop_had(room.first(pulled));
      if (pulled < asked && (group.count > 0 || pulled == 0)) break;
    }
  } catch (...) {
    Ref<Payload> payload = Payload::make(status_from_current_exception());
    payload->ends = true;
    // The input may have given some items before it threw. Spare items hold nothing.
    std::fill(group.items.begin() + static_cast<std::ptrdiff_t>(group.count), group.items.end(),
              ElementRef());
    group.items[group.count] = ref_to(std::move(payload), sequence_);
    ++group.count;
    threw_ = true;
  }
  group.alike = group.count > 0 && alike(group);
  sequence_ += group.count;
}

void Puller::skip(std::size_t count) {
  discard(count);
  sequence_ += count;
}

bool Puller::alike(const Group& group) const noexcept {
  const ProgramPtr* const common = input_->common_program();
  return common != nullptr && !threw_ ? (*common)->immortal() : all_alike(group.all_items());
}

/// Moves the items that the consumer did not have yet to the front. Returns how many they are.
std::size_t Puller::drop_had(std::span<ElementRef> items) {
  return keep_items(items, [this](const ElementRef& item) {
    const auto found = had_.find(item.ordinal);
    if (found == had_.end()) return true;
    had_.erase(found);
    return false;
  });
}

}  // namespace penstock
