#include "pipeline/engine/batch_edge.h"

#include <algorithm>
#include <iterator>

#include "pipeline/core/kill_point.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

BatchEdge::BatchEdge(Run& run, const Node& node, OrderIteratorPtr input, std::uint64_t key,
                     std::uint64_t path, std::shared_ptr<SlotPool> pool, std::size_t group_limit,
                     bool drop_remainder)
    : Edge(run, node, std::move(input), key, group_limit),
      path_(path),
      pool_(std::move(pool)),
      drop_remainder_(drop_remainder) {}

BatchEdge::Filling& BatchEdge::filling(std::uint64_t number) {
  return fillings_[number - fillings_.front().number];
}

BatchEdge::Filling* BatchEdge::current() {
  while (current_ < opened_) {
    Filling& candidate = filling(current_);
    if (lacks(candidate) > 0) return &candidate;
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
  fresh.number = opened_++;
  fresh.slot = std::move(slot);
  const auto room = static_cast<std::size_t>(pool_->layout().room);
  fresh.entries.reserve(rows());
  fresh.unused.resize(room);
  for (std::size_t i = 0; i < room; ++i) {
    fresh.unused[i] = static_cast<std::uint32_t>(room - 1 - i);
  }
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
                     "all were in use while threads waited for reads");
  return true;
}

std::size_t BatchEdge::wait_for_room() {
  const auto start = Clock::now();
  for (;;) {
    const std::uint64_t seen = run_.waker().count();
    if (stopping()) return 0;
    {
      MutexLock lock(mutex_);
      std::size_t room = 0;
      if (Filling* tail = current()) room = lacks(*tail);
      while (room < sizer_.size() && !crowded()) {
        // Only where the consumer waits and yet keeps every slot may one more be made.
        const bool beyond = room == 0 && consumer_waits() && fillings_.empty() && outputs_.empty();
        Ref<Slot> slot = pool_->take(beyond ? SlotPool::Make::beyond : willing());
        if (!slot && room == 0 && reads_starve() && widen()) continue;
        if (!slot) break;
        open_filling(std::move(slot));
        room += rows();
      }
      if (room > 0 && !crowded()) {
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
  group.rows.resize(std::max(group.rows.size(), group.items.size()));
  group.places.resize(group.rows.size());
  for (std::size_t i = 0; i < group.count;) {
    Filling& tail = *current();
    Slot* const slot = tail.slot.get();
    const std::size_t run = std::min(group.count - i, lacks(tail));
    const std::uint32_t* unused = tail.unused.data() + tail.unused.size();
    Group::Place* const places = group.places.data() + i;
    Row* const rows = group.rows.data() + i;
    for (std::size_t k = 0; k < run; ++k) {
      const std::uint32_t row = *--unused;
      tail.entries.emplace_back(row, false, group.first + i + k);
      places[k] = {slot, tail.number, row};
      rows[k] = slot->row(row);
    }
    tail.unused.resize(tail.unused.size() - run);
    tail.pending += run;
    i += run;
  }
}

void BatchEdge::store(Group& group, std::size_t first, std::span<WorkItem> work) {
  for (std::size_t i = 0; i < work.size(); ++i) {
    WorkItem& item = work[i];
    if (item.status.ok()) {
      const Group::Place& place = group.places[first + i];
      try {
        item.status = place.slot->store(item, place.row, *group.context);
      } catch (...) {
        item.status = status_from_current_exception();
      }
      if (!item.status.ok()) {
        item.status = locate(std::move(item.status), {}, run_.stage_name(owner_));
      }
    }
    if (!item.status.ok()) {
      group.failures.emplace_back(first + i, std::move(item.status));
      item.status = Status();
    }
    item.element.clear();
  }
}

void BatchEdge::unstore(Group& group) {
  for (std::size_t i = 0; i < group.count; ++i) {
    group.places[i].slot->clear_row(group.places[i].row);
  }
}

bool BatchEdge::is_first(const Group& group) const {
  for (std::size_t f = 0; f < fillings_.size(); ++f) {
    for (const Entry& entry : fillings_[f].entries) {
      if (entry.done) continue;
      return entry.sequence >= group.first && entry.sequence - group.first < group.count;
    }
  }
  return false;
}

// Entries of a batch are in the order of the input, with gaps where elements failed.
std::size_t BatchEdge::find_entry(const Filling& target, std::uint64_t sequence) {
  const std::size_t at = sequence - target.entries.front().sequence;
  if (at < target.entries.size() && target.entries[at].sequence == sequence) return at;
  const auto found = std::lower_bound(
      target.entries.begin(), target.entries.end(), sequence,
      [](const Entry& entry, std::uint64_t wanted) { return entry.sequence < wanted; });
  return static_cast<std::size_t>(found - target.entries.begin());
}

void BatchEdge::finished(Group& group) {
  for (std::size_t i = 0; i < group.count;) {
    Filling& target = filling(group.places[i].batch);
    std::size_t at = find_entry(target, group.first + i);
    const std::size_t begin = i;
    for (; i < group.count && group.places[i].batch == target.number; ++i) {
      target.entries[at++].done = true;
    }
    target.pending -= i - begin;
  }
  for (auto& [index, status] : group.failures) {
    Filling& target = filling(group.places[index].batch);
    const std::size_t at = find_entry(target, group.first + index);
    Entry& entry = target.entries[at];
    entry.status = std::move(status);
    if (skipping()) {
      target.skipped.push_back(std::move(entry));
      drop_entries(target, at, 1);
      run_.waker().notify();
    } else {
      ++target.failed;
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
  while (close_gaps() || resolve_head()) {
  }
}

bool BatchEdge::nothing_behind(std::size_t place) const {
  for (std::size_t f = place + 1; f < fillings_.size(); ++f) {
    if (!fillings_[f].entries.empty()) return false;
  }
  return true;
}

bool BatchEdge::resolve_head() {
  if (over_ || fillings_.empty()) return false;
  Filling& head = fillings_.front();
  if (head.failed > 0) return resolve_failure(head);
  if (head.pending > 0) return false;
  if (lacks(head) == 0) {
    finish_head(true);
    return true;
  }
  if (head.number < current_) {  // new elements go to a later batch
    if (head.entries.empty() && (head.skipped.empty() || fillings_.size() > 1)) {
      if (fillings_.size() > 1) {
        std::move(head.skipped.begin(), head.skipped.end(),
                  std::back_inserter(fillings_[1].skipped));
        head.skipped.clear();
      }
      finish_head(false);
      return true;
    }
    if (steal_row(0)) return true;
  }
  if (!ended_ || !nothing_behind(0)) return false;
  finish_head(!head.entries.empty() && !drop_remainder_);
  return true;
}

// The first failure of the head, once everything before it is done.
bool BatchEdge::resolve_failure(Filling& head) {
  for (std::size_t i = 0; i < head.entries.size() && head.entries[i].done; ++i) {
    Entry& entry = head.entries[i];
    if (entry.status.ok()) continue;
    --head.failed;
    put_error(std::move(entry.status), entry.sequence + 1);
    drop_entries(head, 0, i + 1);
    run_.waker().notify();
    return true;
  }
  return false;
}

void BatchEdge::drop_entries(Filling& from, std::size_t first, std::size_t count) {
  const auto begin = from.entries.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  // Rows never used before come first, so that rows stay in order.
  for (auto entry = begin; entry != end; ++entry) {
    from.unused.insert(from.unused.begin(), entry->row);
  }
  from.entries.erase(begin, end);
}

bool BatchEdge::close_gaps() {
  if (!skipping() || over_) return false;
  for (std::size_t f = 0; f < fillings_.size() && fillings_[f].number < current_; ++f) {
    const Filling& target = fillings_[f];
    if (!target.entries.empty() && lacks(target) > 0 && steal_row(f)) return true;
  }
  return false;
}

// New elements already go to later batches: the next row there moves up.
bool BatchEdge::steal_row(std::size_t to) {
  Filling& target = fillings_[to];
  if (nothing_behind(to)) {
    if (!ended_) {
      current_ = target.number;  // new elements come here again
      run_.waker().notify();
    }
    return false;
  }
  std::size_t from = to + 1;
  while (fillings_[from].entries.empty()) ++from;
  Filling& next = fillings_[from];
  Entry& entry = next.entries.front();
  if (!entry.done) return false;
  if (!entry.status.ok()) {
    --next.failed;
    put_error(std::move(entry.status), entry.sequence + 1);
    drop_entries(target, 0, target.entries.size());
  } else {
    Entry moved = entry;
    moved.row = target.unused.back();
    target.unused.pop_back();
    target.slot->move_row(moved.row, *next.slot, entry.row);
    target.entries.push_back(std::move(moved));
  }
  drop_entries(next, 0, 1);
  run_.waker().notify();
  return true;
}

void BatchEdge::put_error(Status status, std::uint64_t sequence) {
  outputs_.push_back({item_of(Parcel::make(std::move(status)), mix_path(path_, sequence)), sequence,
                      passed_over_});
}

// Failures in front of the head's last element are passed over with it, also those whose rows were
// in a later batch: a position behind this batch is behind them.
void BatchEdge::take_earlier_failures(Filling& head) {
  const std::uint64_t last = head.entries.back().sequence;
  for (std::size_t f = 0; f < fillings_.size(); ++f) {
    std::vector<Entry>& skipped = fillings_[f].skipped;
    const auto earlier = std::partition(skipped.begin(), skipped.end(), [last](const Entry& entry) {
      return entry.sequence > last;
    });
    std::move(earlier, skipped.end(), std::back_inserter(head.skipped));
    skipped.erase(earlier, skipped.end());
  }
}

void BatchEdge::finish_head(bool deliver_it) {
  Filling head = fillings_.pop_front();
  if (head.number == current_) ++current_;
  if (!head.entries.empty()) take_earlier_failures(head);
  std::sort(head.skipped.begin(), head.skipped.end(),
            [](const Entry& a, const Entry& b) { return a.sequence < b.sequence; });
  for (const Entry& entry : head.skipped) {
    // Where elements moved up into this batch, those behind it may have been counted with it.
    const std::uint64_t reached = std::max(judged_, entry.sequence + 1);
    ++passed_over_;
    Status over = run_.ledger().add(owner_, key_, reached - judged_, entry.status.error());
    judged_ = reached;
    if (over.ok()) continue;
    put_error(std::move(over), entry.sequence + 1);
    over_ = true;
    return;
  }
  if (deliver_it) {
    kill_point("batch made");
    order_.clear();
    for (const Entry& entry : head.entries) order_.push_back(entry.row);
    Item item = item_of(Parcel::make(head.slot->batch(order_)), mix_path(path_, batches_++));
    add_counters(counters_, 1, payload_bytes(item.parcel->element));
    std::uint64_t last = head.entries.back().sequence;
    if (!head.skipped.empty()) last = std::max(last, head.skipped.back().sequence);
    outputs_.push_back({std::move(item), last + 1, passed_over_});
  }
  head.slot = {};
  head.entries.clear();
  head.unused.clear();
  head.skipped.clear();
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
  if (count == 0 && drained()) skipped_ = passed_over_;
  return count;
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
