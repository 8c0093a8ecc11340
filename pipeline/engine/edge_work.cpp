#include <algorithm>

#include "pipeline/core/kill_point.h"
#include "pipeline/engine/edge.h"
#include "pipeline/engine/waits.h"
#include "pipeline/io/read_count.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kChunk = 64;
constexpr std::size_t kMostKept = 1024;
constexpr std::size_t kMostRead = 256;

}  // namespace

void Edge::set_ready(Group& group, bool ready) {
  if (std::exchange(group.ready, ready) == ready) return;
  if (ready) {
    ++ready_;
    run_.ready.fetch_add(1, std::memory_order_seq_cst);
  } else {
    run_.take_off(ready_);
    // An order thread may wait for just this before it makes another slot.
    if (run_.take_off(run_.ready) == run_.plenty()) run_.waker().notify();
  }
}

void Edge::abandon(Group& group) noexcept {
  break_down();
  drop(group);
}

void Edge::drop(Group& group) noexcept {
  run_.take_off(run_.active);
  MutexLock lock(mutex_);
  set_ready(group, false);
  land();
}

void Edge::land() noexcept {
  run_.take_off(in_flight_);
  if (in_flight_ == 0 && stopping()) changed_.notify_all();
}

void Edge::dispatch() noexcept {
  try {
    hand_over_all();
  } catch (...) {
    break_down();
  }
}

void Edge::hand_over_all() {
  while (!stopping()) {
    const std::size_t room = wait_for_room();
    if (room == 0 || stopping()) return;
    Group& group = take_group();
    const std::size_t wanted = std::min({room, sizer_.size(), most_});
    const auto start = Clock::now();
    if (!input_threw_) {
      take_snapshot();
      fill(group, wanted);
    }
    count_wait(counters_->wait_input_ns, start);
    if (stopping()) return;  // what was pulled may be no end
    if (group.count == 0) {
      std::function<void()> exhausted;
      MutexLock lock(mutex_);
      input_ended_ = true;
      ended();
      exhausted = std::move(exhausted_);
      changed_.notify_all();
      lock.unlock();
      if (exhausted && !stopping()) exhausted();
      return;
    }
    group.first = sequence_;
    sequence_ += group.count;
    if (free_order_) remember(group);
    if (!hand_over(group)) return;
  }
}

// Takes what is there: a source that gives less than it was asked for is not asked again.
void Edge::fill(Group& group, std::size_t wanted) {
  const AtWork at_work(run_, &stopping_);
  try {
    while (group.count < wanted) {
      const std::size_t asked = std::min(wanted - group.count, kBlock);
      const std::size_t pulled = input_->pull({group.items.data() + group.count, asked});
      group.count += had_.empty() ? pulled : drop_had({group.items.data() + group.count, pulled});
      if (pulled < asked && (group.count > 0 || pulled == 0)) break;
    }
  } catch (...) {
    group.items[group.count++] = item_of(Parcel::make(status_from_current_exception()), sequence_);
    input_threw_ = true;
    MutexLock lock(mutex_);
    threw_at_ = sequence_ + group.count - 1;
  }
}

/// Moves the items that the consumer has not had to the front and returns how many they are.
std::size_t Edge::drop_had(std::span<Item> items) {
  std::size_t kept = 0;
  for (Item& item : items) {
    const auto found = had_.find(item.ordinal);
    if (found != had_.end()) {
      had_.erase(found);
      item = Item();
    } else if (&items[kept++] != &item) {
      items[kept - 1] = std::move(item);
    }
  }
  return kept;
}

void Edge::remember(const Group& group) {
  MutexLock lock(mutex_);
  std::vector<std::uint64_t>& ordinals = snapshots_[snapshots_.size() - 1].ordinals;
  for (const Item& item : group.all_items()) ordinals.push_back(item.ordinal);
}

bool Edge::hand_over(Group& group) {
  group.context.emplace(run_.memory(), key_, run_.retry(), run_.cancelled_flag());
  const ProgramPtr* const common = input_->common_program();
  group.alike =
      common != nullptr && !input_threw_ ? (*common)->immortal() : all_alike(group.all_items());
  const bool reads = reads_block(group.samples());
  group.textual = reads && group.alike && stores_texts() && group.items.front().program->textual();
  // What is kept until the whole group is there should fit the nearer caches, what is read together
  // with its bytes.
  most_ = !reads && stores()                         ? SIZE_MAX
          : reads && !group.textual && !pace_.slow() ? kMostRead
                                                     : kMostKept;
  const std::size_t kept = group.textual        ? 1
                           : stores() && !reads ? std::min(group.count, kChunk)
                                                : group.count;
  if (group.work.size() < kept) group.work.resize(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    group.work[i].keep = true;
    group.work[i].row = Row();
  }
  const std::uint64_t bytes = reads || !group.alike ? read_bytes(group.all_items()) : 0;
  group.read_bytes = bytes;
  if (bytes > 0) {
    const auto start = Clock::now();
    for (Patience patience;;) {
      const std::uint64_t seen = run_.memory().releases();
      if (run_.memory().reserve(bytes)) {
        group.context->promise(bytes);
        break;
      }
      if (stopping()) return false;
      // Nobody will make room: let the group try with what there is.
      if (bytes > run_.memory().limit() || patience.over(run_)) break;
      run_.memory().wait_for_release(seen, 20);
    }
    count_wait(counters_->wait_memory_ns, start);
  }
  {
    MutexLock lock(mutex_);
    reads_block_ = reads;
    admit(group);
    ++in_flight_;
    set_ready(group, !reads);
  }
  run_.active.fetch_add(1, std::memory_order_acq_rel);
  run_.groups.fetch_add(1, std::memory_order_acq_rel);
  try {
    if (reads) {
      submit_reads(group);
    } else {
      run_.submit([this, &group] { compute(group); }, ops_block(group.samples()));
    }
  } catch (...) {
    abandon(group);
    return false;
  }
  kill_point("handed over");
  return true;
}

void Edge::submit_reads(Group& group) {
  const std::size_t parts = pace_.parts(group.count, group.read_bytes);
  {
    MutexLock lock(mutex_);
    group.parts = parts;
  }
  if (parts == 1) {  // what is captured then needs no memory
    run_.submit([this, &group] { read(group, 0, 1); }, true);
    return;
  }
  for (std::size_t part = 0; part < parts; ++part) {
    try {
      run_.submit([this, &group, part, parts] { read(group, part, parts); }, true);
    } catch (...) {
      if (part == 0) throw;
      read(group, part, parts);  // others have begun
    }
  }
}

// True for the last part.
bool Edge::read_part(Group& group, std::size_t part, std::size_t parts) noexcept {
  bool lost = false;
  try {
    read_items_of(group, part, parts);
  } catch (...) {
    break_down();
    lost = true;
  }
  MutexLock lock(mutex_);
  group.lost = group.lost || lost;
  return --group.parts == 0;
}

void Edge::read_items_of(Group& group, std::size_t part, std::size_t parts) {
  const std::size_t begin = group.count * part / parts;
  const std::size_t count = group.count * (part + 1) / parts - begin;
  const auto items = group.all_items().subspan(begin, count);
  const Places places = Places(group.places).behind(begin);
  const std::uint64_t bytes = parts == 1 ? group.read_bytes : read_bytes(items);
  GroupContext own(run_.memory(), key_, run_.retry(), run_.cancelled_flag());
  if (parts > 1) {
    MutexLock lock(mutex_);
    own.promise_of(*group.context, bytes);
  }
  GroupContext& context = parts > 1 ? own : *group.context;
  if (!stopping()) {
    const std::uint64_t before = reads_asked();
    const std::uint64_t waited = times_waited();
    const auto start = Clock::now();
    if (group.textual) {
      read_texts(group, begin, count, context);
    } else {
      read_items(items, group.all_work().subspan(begin, count), places, context);
    }
    // A source that does not say reads each of its records.
    const std::uint64_t reads = reads_asked() - before;
    const auto took = times_waited() != waited ? Clock::now() - start : Clock::duration::zero();
    pace_.learn(count, reads > 0 ? reads : count, bytes, took);
  }
  if (parts == 1) return;
  MutexLock lock(mutex_);
  group.context->absorb(own);
}

void Edge::read(Group& group, std::size_t part, std::size_t parts) noexcept {
  if (!read_part(group, part, parts)) return;
  if (group.lost) {
    drop(group);
    return;
  }
  try {
    {
      MutexLock lock(mutex_);
      set_ready(group, true);
    }
    // Where all that is left is to store what was read, that is no task of its own.
    if (has_ops(group.samples()) && !ops_block(group.samples())) {
      run_.submit([this, &group] { compute(group); }, false);
      return;
    }
  } catch (...) {
    abandon(group);
    return;
  }
  compute(group);
}

void Edge::compute(Group& group) noexcept {
  if (!stopping()) {
    try {
      const auto start = Clock::now();
      if (group.textual) {
        store_strays(group);
      } else {
        make(group, reads_block(group.samples()));
      }
      sizer_.learn(group.count, Clock::now() - start, group.context->allocated(),
                   preferred_group(group.all_items()));
    } catch (...) {
      abandon(group);
      return;
    }
    if (group.context->starved()) {
      {
        MutexLock lock(mutex_);
        ++starved_;
        group.starved = true;
      }
      run_.take_off(run_.active);
      starve(group);
      return;
    }
  }
  run_.take_off(run_.active);
  finish(group);
}

// Results that are stored at once are made in chunks that stay in the cache.
void Edge::make(Group& group, bool was_read) {
  if (!stores() || was_read) return make_some(group, 0, group.count);
  const bool columnar = group.alike && group.items.front().program->columnar();
  for (std::size_t first = 0; first < group.count;) {
    const auto rest = group.all_items().subspan(first);
    std::vector<Stray> strays;
    std::size_t made = 0;
    if (columnar) {
      const Places places = Places(group.places).behind(first);
      made = compute_columns(rest, places, *group.context, strays);
    }
    for (Stray& stray : strays) store(group, first + stray.item, {&stray.work, 1});
    if (made == 0) {
      made = std::min(kChunk, rest.size());
      make_some(group, first, made);
    }
    first += made;
  }
}

void Edge::make_some(Group& group, std::size_t first, std::size_t count) {
  const std::span<WorkItem> work(group.work.data(), count);
  compute_items(group.all_items().subspan(first, count), work, Places(group.places).behind(first),
                *group.context);
  if (stores()) store(group, first, work);
}

void Edge::note_read_ahead(std::size_t from, std::size_t to) noexcept {
  const auto each = std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * pace_.latency_ms()));
  run_.tuning().note("groups read ahead", from, to, [each, reading = in_flight_] {
    return std::to_string(reading) + " groups were being read, " + in_ms(each) +
           " a read, and none was left to work on";
  });
}

void Edge::finish(Group& group) noexcept {
  kill_point("group done");
  bool wake = false;
  bool was_crowded = false;
  {
    MutexLock lock(mutex_);
    group.done = true;
    was_crowded = crowded();
    if (std::exchange(group.starved, false)) run_.take_off(starved_);
    group.redoing = false;
    set_ready(group, false);
    const std::size_t ahead = pace_.groups_ahead.load(std::memory_order_relaxed);
    if (reads_block_ && ready_ == 0 && in_flight_ > ahead) {  // nothing was left to work on
      const std::size_t more = std::min(2 * ahead, kMostReadAhead);
      pace_.groups_ahead.store(more, std::memory_order_relaxed);
      if (more > ahead) note_read_ahead(ahead, more);
    }
    try {
      finished(group);
    } catch (...) {
      break_down_locked();
    }
    wake = waiting_;
    was_crowded = was_crowded || reads_starve();
  }
  // Not under the lock, which the woken thread takes first; and before the edge may be destroyed.
  if (wake) changed_.notify_all();
  MutexLock lock(mutex_);
  if (was_crowded) run_.waker().notify();
  land();
}

}  // namespace penstock
