#include "pipeline/engine/filling.h"

#include <algorithm>

namespace penstock {

void Filling::open(std::uint64_t number, Ref<Slot> slot) {
  number_ = number;
  slot_ = std::move(slot);
  rows_ = static_cast<std::size_t>(slot_->layout().rows);
  room_ = static_cast<std::uint32_t>(slot_->layout().room);
  fresh_ = 0;
  reused_ = held_ = pending_ = failed_ = 0;
}

void Filling::close() {
  slot_ = {};
  stretches_.clear();
  freed_.clear();
}

// Rows never used before come first, so that rows stay in order.
Filling::Stretch Filling::give(std::uint64_t sequence, std::size_t most, bool done) {
  Stretch stretch{sequence, fresh_, 1, done};
  if (fresh_ < room_) {
    stretch.count = static_cast<std::uint32_t>(std::min<std::size_t>(most, room_ - fresh_));
    fresh_ += stretch.count;
  } else {
    stretch.row = freed_[reused_++];
  }
  stretches_.push_back(stretch);
  held_ += stretch.count;
  if (!done) ++pending_;
  return stretch;
}

// Sequence numbers ascend, with gaps where elements have failed.
std::size_t Filling::find(std::uint64_t sequence) const {
  const auto behind = std::upper_bound(
      stretches_.begin(), stretches_.end(), sequence,
      [](std::uint64_t wanted, const Stretch& stretch) { return wanted < stretch.sequence; });
  return static_cast<std::size_t>(behind - stretches_.begin()) - 1;
}

void Filling::finish(std::uint64_t sequence) {
  stretches_[find(sequence)].done = true;
  --pending_;
}

// Makes the element a stretch of its own.
std::size_t Filling::single_out(std::uint64_t sequence) {
  const std::size_t at = find(sequence);
  const Stretch whole = stretches_[at];
  const auto before = static_cast<std::uint32_t>(sequence - whole.sequence);
  const std::uint32_t behind = whole.count - before - 1;
  stretches_[at] = {sequence, whole.row + before, 1, whole.done};
  const auto here = [&] { return stretches_.begin() + static_cast<std::ptrdiff_t>(at); };
  if (behind > 0) {
    stretches_.insert(here() + 1, {sequence + 1, whole.row + before + 1, behind, whole.done});
  }
  if (before == 0) return at;
  stretches_.insert(here(), {whole.sequence, whole.row, before, whole.done});
  return at + 1;
}

void Filling::fail(std::uint64_t sequence, Status status) {
  stretches_[single_out(sequence)].status = std::move(status);
  ++failed_;
}

void Filling::free_rows(std::uint32_t row, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) freed_.push_back(row + i);
  held_ -= count;
}

void Filling::drop(std::uint64_t sequence) {
  const std::size_t at = single_out(sequence);
  free_rows(stretches_[at].row, 1);
  stretches_.erase(stretches_.begin() + static_cast<std::ptrdiff_t>(at));
}

void Filling::drop_elements(std::uint32_t count) {
  Stretch& first = stretches_.front();
  if (count == first.count) return drop_stretches(1);
  free_rows(first.row, count);
  first.sequence += count;
  first.row += count;
  first.count -= count;
}

void Filling::drop_stretches(std::size_t count) {
  const auto end = stretches_.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto stretch = stretches_.begin(); stretch != end; ++stretch) {
    free_rows(stretch->row, stretch->count);
    if (!stretch->done) --pending_;
    if (!stretch->status.ok()) --failed_;
  }
  stretches_.erase(stretches_.begin(), end);
}

Element Filling::batch() {
  std::uint32_t next = 0;
  for (const Stretch& stretch : stretches_) {
    if (stretch.row != next) break;
    next += stretch.count;
  }
  if (next == held_) return slot_->batch(next);  // as nearly always
  order_.clear();
  for (const Stretch& stretch : stretches_) {
    for (std::uint32_t i = 0; i < stretch.count; ++i) order_.push_back(stretch.row + i);
  }
  return slot_->batch(order_);
}

}  // namespace penstock
