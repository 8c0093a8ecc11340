#include "pipeline/engine/segment/partial_batch.h"

#include <algorithm>

namespace penstock {

void PartialBatch::open(std::uint64_t number, Ref<Slot> slot) {
  number_ = number;
  slot_ = std::move(slot);
  rows_ = static_cast<std::size_t>(slot_->layout().rows);
  room_ = static_cast<std::uint32_t>(slot_->layout().room);
  fresh_ = 0;
  reused_ = held_ = pending_ = failed_ = 0;
  make_only(0, UINT32_MAX);
}

void PartialBatch::open_hollow(std::uint64_t number, std::size_t rows) {
  number_ = number;
  rows_ = rows;
  room_ = static_cast<std::uint32_t>(rows);
  fresh_ = 0;
  reused_ = held_ = pending_ = failed_ = 0;
  make_only(0, 0);
}

PartialBatch::Stretch PartialBatch::stretch() const noexcept {
  if (fresh_ < made_from_) return {false, std::min<std::size_t>(lacks(), made_from_ - fresh_)};
  if (fresh_ < made_to_) return {true, std::min<std::size_t>(lacks(), made_to_ - fresh_)};
  return {false, lacks()};
}

Ref<Slot> PartialBatch::close() {
  ranges_.clear();
  freed_.clear();
  return std::move(slot_);
}

// Rows that were never used come first, so that rows stay in order.
PartialBatch::RowRange PartialBatch::give(std::uint64_t sequence, std::size_t most, bool done) {
  RowRange range{sequence, fresh_, 1, done};
  if (fresh_ < room_) {
    range.count = static_cast<std::uint32_t>(std::min<std::size_t>(most, room_ - fresh_));
    fresh_ += range.count;
  } else {
    range.row = freed_[reused_++];
  }
  ranges_.push_back(range);
  held_ += range.count;
  if (!done) ++pending_;
  return range;
}

// Sequence numbers ascend, with gaps where elements have failed.
std::size_t PartialBatch::find(std::uint64_t sequence) const {
  const auto behind = std::upper_bound(
      ranges_.begin(), ranges_.end(), sequence,
      [](std::uint64_t wanted, const RowRange& range) { return wanted < range.sequence; });
  return static_cast<std::size_t>(behind - ranges_.begin()) - 1;
}

void PartialBatch::finish(std::uint64_t sequence) {
  ranges_[find(sequence)].done = true;
  --pending_;
}

// Makes the element a range of its own and returns the range's position.
std::size_t PartialBatch::single_out(std::uint64_t sequence) {
  const std::size_t at = find(sequence);
  const RowRange whole = ranges_[at];
  const auto before = static_cast<std::uint32_t>(sequence - whole.sequence);
  const std::uint32_t behind = whole.count - before - 1;
  ranges_[at] = {sequence, whole.row + before, 1, whole.done};
  const auto here = [&] { return ranges_.begin() + static_cast<std::ptrdiff_t>(at); };
  if (behind > 0) {
    ranges_.insert(here() + 1, {sequence + 1, whole.row + before + 1, behind, whole.done});
  }
  if (before == 0) return at;
  ranges_.insert(here(), {whole.sequence, whole.row, before, whole.done});
  return at + 1;
}

void PartialBatch::fail(std::uint64_t sequence, Status status) {
  ranges_[single_out(sequence)].status = std::move(status);
  ++failed_;
}

void PartialBatch::free_rows(std::uint32_t row, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) freed_.push_back(row + i);
  held_ -= count;
}

void PartialBatch::drop(std::uint64_t sequence) {
  const std::size_t at = single_out(sequence);
  free_rows(ranges_[at].row, 1);
  ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(at));
}

void PartialBatch::drop_elements(std::uint32_t count) {
  RowRange& first = ranges_.front();
  if (count == first.count) return drop_ranges(1);
  free_rows(first.row, count);
  first.sequence += count;
  first.row += count;
  first.count -= count;
}

void PartialBatch::drop_ranges(std::size_t count) {
  const auto end = ranges_.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto range = ranges_.begin(); range != end; ++range) {
    free_rows(range->row, range->count);
    if (!range->done) --pending_;
    if (!range->status.ok()) --failed_;
  }
  ranges_.erase(ranges_.begin(), end);
}

Element PartialBatch::batch() {
  if (hollow()) {
    Element none;
    none.valid_rows = static_cast<std::int64_t>(held_);
    return none;
  }
  std::uint32_t next = 0;
  for (const RowRange& range : ranges_) {
    if (range.row != next) break;
    next += range.count;
  }
  if (next == held_) return slot_->batch(next);  // the usual case
  order_.clear();
  for (const RowRange& range : ranges_) {
    for (std::uint32_t i = 0; i < range.count; ++i) order_.push_back(range.row + i);
  }
  return slot_->batch(order_);
}

}  // namespace penstock
