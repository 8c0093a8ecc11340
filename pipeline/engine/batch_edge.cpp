#include "pipeline/engine/batch_edge.h"

#include <algorithm>

#include "pipeline/core/kill_point.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

BatchEdge::BatchEdge(Run& run, const Node& node, OrderIteratorPtr input, const OpenContext& context,
                     std::uint64_t path, std::shared_ptr<SlotPool> pool, std::size_t group_limit,
                     bool drop_remainder)
    : Edge(run, node, std::move(input), context, group_limit),
      path_(path),
      pool_(std::move(pool)),
      drop_remainder_(drop_remainder) {}

Filling& BatchEdge::filling(std::uint64_t number) {
  return fillings_[number - fillings_.front().number()];
}

Filling* BatchEdge::current() {
  while (current_ < opened_) {
    Filling& candidate = filling(current_);
    if (candidate.lacks() > 0) return &candidate;
    ++current_;
  }
  return nullptr;
}

void BatchEdge::open_filling(Ref<Slot> slot) {
  Filling fresh;
  if (!spare_.empty()) {
    fresh = std::move(spare_.back());
    spare_.pop_back();
  }
  fresh.open(opened_++, std::move(slot));
  fillings_.push_back(std::move(fresh));
}

// Memory that was never used is dear: while there is enough to work on, a large slot is waited for
// until it comes back, rather than another one made.
SlotPool::Make BatchEdge::willing() const {
  constexpr std::size_t kLarge = 4U << 20;
  const bool busy = run_.ready.load(std::memory_order_seq_cst) >= run_.plenty();
  return busy && pool_->layout().bytes >= kLarge ? SlotPool::Make::if_must : SlotPool::Make::within;
}

bool BatchEdge::widen() {
  const std::size_t before = pool_->widen(run_.most_slots(owner_, pool_->layout().bytes));
  if (before == 0) return false;
  run_.tuning().note("slots", before, pool_->limit(),
                     [] { return "all were in use while threads waited for reads"; });
  return true;
}

void BatchEdge::note_texts(std::uint64_t bytes) {
  if (pool_->layout().element.is_fixed_size() || bytes <= 2 * most_text_) return;
  most_text_ = bytes;
  pool_->narrow(run_.slots_for(owner_, pool_->layout().bytes + bytes));
}

std::size_t BatchEdge::wait_for_room() {
  const auto start = Clock::now();
  for (;;) {
    const std::uint64_t seen = run_.waker().count();
    if (stopping()) return 0;
    {
      MutexLock lock(mutex_);
      std::size_t room = 0;
      if (Filling* tail = current()) room = tail->lacks();
      while (room < sizer_.size() && !held_up()) {
        // Only where the consumer waits and yet keeps every slot may one more be made.
        const bool beyond = room == 0 && consumer_waits() && fillings_.empty() && outputs_.empty();
        Ref<Slot> slot = pool_->take(beyond ? SlotPool::Make::beyond : willing());
        if (!slot && room == 0 && reads_starve() && widen()) continue;
        if (!slot) break;
        open_filling(std::move(slot));
        room += rows();
      }
      if (room > 0 && !held_up()) {
        without_slot_ = false;
        count_wait(counters_->wait_output_ns, start);
        return room;
      }
      if (!without_slot_ && consumer_waits() && fillings_.empty() && outputs_.empty()) {
        without_slot_ = true;
        slot_patience_.renew();
      }
    }
    run_.waker().wait(seen);
  }
}

void BatchEdge::admit(Group& group) {
  group.places.clear();
  for (std::size_t i = 0; i < group.count;) {
    Filling& tail = *current();
    const Filling::Stretch given =
        tail.give(group.first + i, std::min(group.count - i, tail.lacks()), false);
    group.places.push_back(
        {&tail.slot(), tail.number(), given.row, static_cast<std::uint32_t>(i), given.count});
    i += given.count;
  }
}

bool BatchEdge::stores_texts() const noexcept {
  const Spec& element = pool_->layout().element;
  return element.size() == 1 && element[0].dtype == DType::bytes && element[0].shape.rank() == 0;
}

void BatchEdge::store(Group& group, std::size_t first, std::span<WorkItem> work) {
  Places(group.places).behind(first).for_each(work.size(), [&](const Place& place) {
    store_run(group, place, work.first(place.count));
    work = work.subspan(place.count);
  });
}

void BatchEdge::store_run(Group& group, const Place& place, std::span<WorkItem> work) {
  for (std::size_t i = 0; i < work.size(); ++i) {
    i += place.slot->store_fitting(work.subspan(i), place.row + i);
    if (i == work.size()) break;
    WorkItem& item = work[i];
    if (item.status.ok()) {
      try {
        item.status = place.slot->store(item, place.row + i, *group.context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
      if (!item.status.ok()) {
        item.status = locate(std::move(item.status), {}, run_.stage_name(owner_));
      }
    }
    if (!item.status.ok()) {
      group.failures.emplace_back(place.first + i, std::move(item.status));
      item.status = Status();
    }
  }
  for (WorkItem& item : work) item.element.clear();
}

void BatchEdge::unstore(Group& group) {
  for (const Place& place : group.places) {
    for (std::uint32_t i = 0; i < place.count; ++i) place.slot->clear_row(place.row + i);
  }
}

bool BatchEdge::is_first(const Group& group) const {
  for (std::size_t f = 0; f < fillings_.size(); ++f) {
    for (const Filling::Stretch& stretch : fillings_[f].stretches()) {
      if (stretch.done) continue;
      return stretch.sequence >= group.first && stretch.sequence - group.first < group.count;
    }
  }
  return false;
}

void BatchEdge::finished(Group& group) {
  for (const Place& place : group.places) filling(place.batch).finish(group.first + place.first);
  Places places(group.places);
  std::size_t at = 0;
  for (auto& [index, status] : group.failures) {
    places = places.behind(index - std::exchange(at, index));
    Filling& target = filling(places.next(1).batch);
    const std::uint64_t sequence = group.first + index;
    if (skipping()) {
      target.drop(sequence);
      failures_.emplace(sequence, std::move(status));
      run_.waker().notify();
    } else {
      target.fail(sequence, std::move(status));
    }
  }
  recycle(group);
  advance();
}

void BatchEdge::ended() {
  ended_ = true;
  advance();
}

void BatchEdge::advance() {
  do {
    pass_over_failures();
  } while (close_gaps() || resolve_head());
}

bool BatchEdge::nothing_behind(std::size_t place) const {
  for (std::size_t f = place + 1; f < fillings_.size(); ++f) {
    if (!fillings_[f].empty()) return false;
  }
  return true;
}

bool BatchEdge::resolve_head() {
  if (over_ || fillings_.empty()) return false;
  Filling& head = fillings_.front();
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
    if (steal_rows(0)) return true;
  }
  if (!ended_ || !nothing_behind(0)) return false;
  finish_head(!head.empty() && !drop_remainder_);
  return true;
}

// The first failure of the head, once everything before it is done.
bool BatchEdge::resolve_failure(Filling& head) {
  const std::vector<Filling::Stretch>& stretches = head.stretches();
  for (std::size_t i = 0; i < stretches.size() && stretches[i].done; ++i) {
    if (stretches[i].status.ok()) continue;
    put_error(stretches[i].status, stretches[i].sequence + 1);
    head.drop_stretches(i + 1);
    run_.waker().notify();
    return true;
  }
  return false;
}

bool BatchEdge::close_gaps() {
  if (!skipping() || over_) return false;
  for (std::size_t f = 0; f < fillings_.size() && fillings_[f].number() < current_; ++f) {
    const Filling& target = fillings_[f];
    if (!target.empty() && target.lacks() > 0 && steal_rows(f)) return true;
  }
  return false;
}

// New elements already go to later batches: the next rows there move up.
bool BatchEdge::steal_rows(std::size_t to) {
  Filling& target = fillings_[to];
  if (nothing_behind(to)) {
    if (!ended_) {
      current_ = target.number();  // new elements come here again
      run_.waker().notify();
    }
    return false;
  }
  std::size_t from = to + 1;
  while (fillings_[from].empty()) ++from;
  Filling& next = fillings_[from];
  const Filling::Stretch& first = next.stretches().front();
  if (!first.done) return false;
  if (!first.status.ok()) {
    put_error(first.status, first.sequence + 1);
    target.drop_stretches(target.stretches().size());
    next.drop_stretches(1);
  } else {
    const Filling::Stretch given =
        target.give(first.sequence, std::min<std::size_t>(first.count, target.lacks()), true);
    for (std::uint32_t i = 0; i < given.count; ++i) {
      target.slot().move_row(given.row + i, next.slot(), first.row + i);
    }
    next.drop_elements(given.count);
  }
  run_.waker().notify();
  return true;
}

void BatchEdge::put_error(Status status, std::uint64_t sequence) {
  outputs_.push_back({item_of(Parcel::make(std::move(status)), mix_path(path_, sequence)), sequence,
                      passed_over_});
}

// What was handed over later stands behind: in the head, or in a later batch.
std::uint64_t BatchEdge::settled() {
  if (fillings_.empty()) return UINT64_MAX;
  const Filling& head = fillings_.front();
  for (const Filling::Stretch& stretch : head.stretches()) {
    if (!stretch.done) return stretch.sequence;
  }
  if (head.lacks() == 0) return head.last();
  for (std::size_t f = 1; f < fillings_.size(); ++f) {
    if (!fillings_[f].empty()) return fillings_[f].stretches().front().sequence;
  }
  return UINT64_MAX;
}

// As soon as their turn has come, rather than with the batch: that may never be full.
void BatchEdge::pass_over_failures() {
  if (failures_.empty() || over_) return;
  const std::uint64_t end = settled();
  while (!failures_.empty() && failures_.begin()->first < end) {
    const auto failure = failures_.extract(failures_.begin());
    const std::uint64_t reached = failure.key() + 1;
    ++passed_over_;
    Status over = run_.ledger().add(account_, reached - judged_, failure.mapped().error());
    judged_ = reached;
    run_.waker().notify();
    if (over.ok()) continue;
    put_error(std::move(over), reached);
    over_ = true;
    return;
  }
}

void BatchEdge::finish_head(bool deliver_it) {
  Filling head = fillings_.pop_front();
  if (head.number() == current_) ++current_;
  if (deliver_it) {
    kill_point("batch made");
    Item item = item_of(Parcel::make(head.batch()), mix_path(path_, batches_++));
    const std::uint64_t bytes = payload_bytes(item.parcel->element);
    add_counters(counters_, 1, bytes);
    note_texts(bytes);
    outputs_.push_back({std::move(item), std::max(head.last() + 1, judged_), passed_over_});
  }
  head.close();
  spare_.push_back(std::move(head));
}

std::size_t BatchEdge::deliver(std::span<Item> out) {
  std::size_t count = 0;
  for (; count < out.size() && !outputs_.empty(); ++count) {
    Output output = outputs_.pop_front();
    out[count] = std::move(output.item);
    delivered_ += is_error(out[count]) ? 0 : 1;
    consumed_ = output.consumed;
    skipped_ = output.skipped;
  }
  if (count == 0 && drained()) {
    skipped_ = passed_over_;
    settle();
  }
  return count;
}

void BatchEdge::settle() {
  if (consumed_ <= judged_) return;
  run_.ledger().pass(account_, consumed_ - std::exchange(judged_, consumed_));
}

Status BatchEdge::stuck() {
  if (!without_slot_ || !slot_patience_.over(run_)) return {};
  slot_patience_.renew();
  return Error(ErrorCode::resource_exhausted,
               "all " + std::to_string(pool_->made()) +
                   " batch slots are held by the caller, and the memory budget has no room for "
                   "another; let go of a batch before asking for the next",
               Provenance{{}, -1, -1, run_.stage_name(owner_)});
}

}  // namespace penstock
