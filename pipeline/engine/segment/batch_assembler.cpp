#include "pipeline/engine/segment/batch_assembler.h"

#include <algorithm>

#include "pipeline/core/kill_point.h"
#include "pipeline/stage/counters.h"
#include "pipeline/stage/element_ref.h"

namespace penstock {

PartialBatch& BatchAssembler::partial(std::uint64_t number) {
  return partial_[number - partial_.front().number()];
}

// Returns the batch that new elements go to, or null if no opened batch has a row left.
PartialBatch* BatchAssembler::current() {
  while (current_ < opened_) {
    PartialBatch& candidate = partial(current_);
    if (candidate.lacks() > 0) return &candidate;
    ++current_;
  }
  return nullptr;
}

std::size_t BatchAssembler::room() {
  const PartialBatch* const tail = current();
  return tail != nullptr ? tail->lacks() : 0;
}

// Returns a batch that reuses the memory of a finished one.
PartialBatch BatchAssembler::fresh() {
  if (spare_.empty()) return {};
  PartialBatch fresh = std::move(spare_.back());
  spare_.pop_back();
  return fresh;
}

void BatchAssembler::open(Ref<Slot> slot) {
  PartialBatch fresh = this->fresh();
  fresh.open(opened_, std::move(slot));
  if (share_) {
    const BatchShare::Rows made =
        share_->batches.made_of(share_->epoch, before_ + opened_, share_->rows);
    fresh.make_only(made.first, made.end);
  }
  ++opened_;
  partial_.push_back(std::move(fresh));
}

bool BatchAssembler::next_is_hollow() const noexcept {
  if (!share_) return false;
  const auto made = share_->batches.made_of(share_->epoch, before_ + opened_, share_->rows);
  return made.first == made.end;
}

void BatchAssembler::open_hollow() {
  PartialBatch fresh = this->fresh();
  fresh.open_hollow(opened_, static_cast<std::size_t>(share_->rows));
  partial_.push_back(std::move(fresh));
  ++opened_;
  ++hollow_;
}

PartialBatch::Stretch BatchAssembler::stretch() {
  const PartialBatch* const tail = share_ ? current() : nullptr;
  if (tail == nullptr) return {true, SIZE_MAX};
  PartialBatch::Stretch all = tail->stretch();
  std::size_t reach = all.rows;
  for (std::uint64_t next = tail->number() + 1;
       reach == partial(next - 1).lacks() && next < opened_; ++next) {
    const PartialBatch::Stretch more = partial(next).stretch();
    if (more.made != all.made) break;
    all.rows += reach = more.rows;
  }
  return all;
}

void BatchAssembler::skip(std::uint64_t first, std::size_t count) {
  while (count > 0) {
    PartialBatch& tail = *current();
    const std::size_t given = tail.give(first, std::min(count, tail.lacks()), true).count;
    first += given;
    count -= given;
  }
  advance();
}

void BatchAssembler::admit(Group& group) {
  for (std::size_t i = 0; i < group.count;) {
    PartialBatch& tail = *current();
    const PartialBatch::RowRange given =
        tail.give(group.first + i, std::min(group.count - i, tail.lacks()), false);
    group.places.push_back(
        {&tail.slot(), tail.number(), given.row, static_cast<std::uint32_t>(i), given.count});
    i += given.count;
  }
}

bool BatchAssembler::is_first(const Group& group) const {
  for (std::size_t f = 0; f < partial_.size(); ++f) {
    for (const PartialBatch::RowRange& range : partial_[f].ranges()) {
      if (range.done) continue;
      return range.sequence >= group.first && range.sequence - group.first < group.count;
    }
  }
  return false;
}

void BatchAssembler::complete(Group& group) {
  for (const Place& place : group.places) partial(place.batch).finish(group.first + place.first);
  Places places(group.places);
  std::size_t at = 0;
  for (auto& [index, status] : group.failures) {
    places = places.behind(index - std::exchange(at, index));
    PartialBatch& target = partial(places.next(1).batch);
    const std::uint64_t sequence = group.first + index;
    if (account_.skips()) {
      target.drop(sequence);
      failures_.emplace(sequence, std::move(status));
      room_made_.notify();
    } else {
      target.fail(sequence, std::move(status));
    }
  }
  advance();
}

void BatchAssembler::end() {
  ended_ = true;
  advance();
}

void BatchAssembler::advance() {
  do {
    pass_over_failures();
  } while (close_gaps() || resolve_head());
}

bool BatchAssembler::nothing_behind(std::size_t place) const {
  for (std::size_t f = place + 1; f < partial_.size(); ++f) {
    if (!partial_[f].empty()) return false;
  }
  return true;
}

// Does one step towards delivering the oldest batch. Returns false if there is nothing to do now.
bool BatchAssembler::resolve_head() {
  if (over_ || partial_.empty()) return false;
  PartialBatch& head = partial_.front();
  if (head.failed()) return resolve_failure(head);
  if (head.pending()) return false;
  if (head.lacks() == 0) {
    finish_head(true);
    return true;
  }
  if (head.number() < current_) {  // new elements go to a later batch
    if (head.empty()) {
      finish_head(false);
      return true;
    }
    if (move_rows_up(0)) return true;
  }
  if (!ended_ || !nothing_behind(0)) return false;
  finish_head(!head.empty() && !drop_remainder_);
  return true;
}

// Delivers the head's first failure once everything before it is done.
bool BatchAssembler::resolve_failure(PartialBatch& head) {
  const std::vector<PartialBatch::RowRange>& ranges = head.ranges();
  for (std::size_t i = 0; i < ranges.size() && ranges[i].done; ++i) {
    if (ranges[i].status.ok()) continue;
    put_error(ranges[i].status, ranges[i].sequence + 1);
    head.drop_ranges(i + 1);
    // The runs that make other batches do not know which rows are missing.
    over_ = share_.has_value();
    room_made_.notify();
    return true;
  }
  return false;
}

// Moves rows up, in all batches, to where failed elements were skipped. Returns false if no row
// could be moved.
bool BatchAssembler::close_gaps() {
  if (!account_.skips() || over_) return false;
  for (std::size_t f = 0; f < partial_.size() && partial_[f].number() < current_; ++f) {
    const PartialBatch& target = partial_[f];
    if (!target.empty() && target.lacks() > 0 && move_rows_up(f)) return true;
  }
  return false;
}

// Moves the next rows of later batches up. New elements already go to later batches.
bool BatchAssembler::move_rows_up(std::size_t to) {
  PartialBatch& target = partial_[to];
  if (nothing_behind(to)) {
    if (!ended_) {
      current_ = target.number();  // new elements come here again
      room_made_.notify();
    }
    return false;
  }
  std::size_t from = to + 1;
  while (partial_[from].empty()) ++from;
  PartialBatch& next = partial_[from];
  const PartialBatch::RowRange& first = next.ranges().front();
  if (!first.done) return false;
  if (!first.status.ok()) {
    put_error(first.status, first.sequence + 1);
    target.drop_ranges(target.ranges().size());
    next.drop_ranges(1);
  } else {
    const PartialBatch::RowRange given =
        target.give(first.sequence, std::min<std::size_t>(first.count, target.lacks()), true);
    for (std::uint32_t i = 0; i < given.count; ++i) {
      target.slot().move_row(given.row + i, next.slot(), first.row + i);
    }
    next.drop_elements(given.count);
  }
  room_made_.notify();
  return true;
}

void BatchAssembler::put_error(Status status, std::uint64_t reached) {
  outputs_.push_back({ref_to(Payload::make(std::move(status)), mix_path(path_, reached)), reached,
                      skipped_ahead_});
}

// Returns the first sequence number that is not settled. Elements before it are in the head, or
// failed with nothing left in front of them. Elements admitted later are behind these, in the head
// or in a later batch.
std::uint64_t BatchAssembler::settled() {
  if (partial_.empty()) return UINT64_MAX;
  const PartialBatch& head = partial_.front();
  for (const PartialBatch::RowRange& range : head.ranges()) {
    if (!range.done) return range.sequence;
  }
  if (head.lacks() == 0) return head.last();
  for (std::size_t f = 1; f < partial_.size(); ++f) {
    if (!partial_[f].empty()) return partial_[f].ranges().front().sequence;
  }
  return UINT64_MAX;
}

// Skips failures as soon as their turn has come, not with the batch, which may never be full.
void BatchAssembler::pass_over_failures() {
  if (failures_.empty() || over_) return;
  const std::uint64_t end = settled();
  while (!failures_.empty() && failures_.begin()->first < end) {
    const auto failure = failures_.extract(failures_.begin());
    const std::uint64_t reached = failure.key() + 1;
    ++skipped_ahead_;
    Status over = account_.skip(reached - judged_, failure.mapped().error());
    judged_ = reached;
    room_made_.notify();
    if (over.ok()) continue;
    put_error(std::move(over), reached);
    over_ = true;
    return;
  }
}

void BatchAssembler::deliver(PartialBatch& head) {
  kill_point("batch made");
  ElementRef item = ref_to(Payload::make(head.batch()), mix_path(path_, batches_++));
  const std::uint64_t bytes = payload_bytes(item.payload->element);
  if (!head.hollow()) add_counters(&account_.counters(), 1, bytes);
  largest_ = std::max(largest_, bytes);
  if (!head.hollow()) most_text_ = std::max(most_text_, head.slot().text_bytes());
  outputs_.push_back(
      {std::move(item), std::max(head.last() + 1, judged_), skipped_ahead_, head.hollow()});
}

void BatchAssembler::finish_head(bool deliver_it) {
  PartialBatch head = partial_.pop_front();
  if (head.number() == current_) ++current_;
  try {
    if (deliver_it) deliver(head);
  } catch (...) {
    drop(head.close());
    throw;
  }
  Ref<Slot> slot = head.close();
  if (!deliver_it) drop(std::move(slot));
  spare_.push_back(std::move(head));
}

void BatchAssembler::drop(Ref<Slot> slot) noexcept {
  if (!slot) return;
  slot->link(std::move(dropped_));
  dropped_ = std::move(slot);
}

std::size_t BatchAssembler::take(std::span<ElementRef> out) {
  std::size_t count = 0;
  for (; count < out.size() && !outputs_.empty(); ++count) {
    Output output = outputs_.pop_front();
    out[count] = std::move(output.item);
    delivered_ += is_error(out[count]) ? 0 : 1;
    consumed_ = output.consumed;
    skipped_ = output.skipped;
    if (output.hollow && --hollow_ == kMostHollow - 1) room_made_.notify();
  }
  if (count == 0 && drained()) {
    skipped_ = skipped_ahead_;
    settle();
  }
  return count;
}

// Counts the good elements after the last bad one, as far as they were taken.
void BatchAssembler::settle() {
  if (consumed_ <= judged_) return;
  account_.pass(consumed_ - std::exchange(judged_, consumed_));
}

void BatchAssembler::restore(std::uint64_t consumed, std::uint64_t skipped,
                             std::uint64_t delivered) {
  judged_ = consumed_ = consumed;
  skipped_ahead_ = skipped_ = skipped;
  batches_ = delivered_ = before_ = delivered;
  // Failed rows are missing, so the number of batches does not tell which of them are full.
  if (share_ && consumed != delivered * static_cast<std::uint64_t>(share_->rows)) share_.reset();
  account_.restore({consumed, skipped});
}

}  // namespace penstock
