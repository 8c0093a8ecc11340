#include "pipeline/engine/edge.h"

#include <algorithm>

#include "pipeline/core/kill_point.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kChunk = 64;
constexpr std::size_t kFreeGroup = 128;  // keeps states small

bool has_unordered(const Node& node) {
  for (const NodePtr& input : node.inputs()) {
    if (!input->ordered() || has_unordered(*input)) return true;
  }
  return false;
}

}  // namespace

void count_wait(std::atomic<std::uint64_t>& counter, Clock::time_point start) {
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  counter.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
}

void GroupSizer::learn(std::size_t count, std::chrono::nanoseconds took,
                       std::uint64_t bytes) noexcept {
  if (count == 0) return;
  const double each = std::max(1.0, static_cast<double>(took.count()) / static_cast<double>(count));
  const std::size_t now = by_time_.load(std::memory_order_relaxed);
  // At most doubled at a time, so that one lucky group can't make a huge next one.
  const double wanted = std::min(kTargetNs / each, 2.0 * static_cast<double>(std::max(now, count)));
  by_time_.store(std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, most_),
                 std::memory_order_relaxed);
  by_bytes_.store(std::max<std::uint64_t>(share_ / std::max<std::uint64_t>(bytes / count, 1), 1),
                  std::memory_order_relaxed);
}

Edge::Edge(Run& run, const Node& owner, OrderIteratorPtr input, std::uint64_t key,
           std::size_t group_limit)
    : run_(run),
      owner_(owner),
      counters_(run.counters(owner)),
      sizer_(std::clamp<std::size_t>(group_limit, 1, has_unordered(owner) ? kFreeGroup : SIZE_MAX),
             run.memory().limit() / (8 + 4 * static_cast<std::uint64_t>(run.threads()))),
      key_(key),
      input_(std::move(input)),
      breakdown_(Parcel::make(Status(ErrorCode::resource_exhausted, "out of memory"))),
      free_order_(has_unordered(owner)) {
  run_.add(*this);
}

void Edge::wake() noexcept {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

void Edge::start() {
  {
    MutexLock lock(mutex_);
    if (started_) return;
    started_ = true;
  }
  take_snapshot();  // of an input that knows more than a fresh one does, such as a full cache
  thread_ = std::jthread([this] { dispatch(); });
}

void Edge::stop() {
  stopping_.store(true, std::memory_order_release);
  run_.waker().notify();
  run_.memory().wake();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  waiting_ = true;
  while (in_flight_ > 0) changed_.wait(mutex_);
}

void Edge::on_exhausted(std::function<void()> callback) {
  {
    MutexLock lock(mutex_);
    if (!input_ended_) {
      exhausted_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Edge::save(StateWriter& state) const {
  MutexLock lock(mutex_);
  state.put(consumed_);
  state.put(skipped_);
  state.put(snapshots_.empty() ? 0 : 1);
  if (!snapshots_.empty()) {
    std::size_t last = 0;
    while (last + 1 < snapshots_.size() && snapshots_[last + 1].sequence <= consumed_) ++last;
    const std::uint64_t passed = consumed_ - snapshots_[last].sequence;
    state.put(passed);
    for (std::uint64_t i = 0; free_order_ && i < passed; ++i) {
      state.put(snapshots_[last].ordinals[i]);
    }
    state.put_bytes(snapshots_[last].input);
  }
  save_more(state);
}

void Edge::restore(StateReader& state) {
  const std::uint64_t consumed = state.get();
  const std::uint64_t skipped = state.get();
  run_.ledger().restore_skipped(key_, skipped);
  if (state.get() != 0) {
    const std::uint64_t passed = state.get();
    for (std::uint64_t i = 0; free_order_ && i < passed; ++i) had_.insert(state.get());
    StateReader input(state.get_bytes());
    if (free_order_) {
      for (std::uint64_t left = input.get(); left > 0; --left) had_.insert(input.get());
    }
    input_->restore(input);
    if (!free_order_ && passed > 0) input_->discard(passed);
  }
  sequence_ = consumed;
  {
    MutexLock lock(mutex_);
    consumed_ = consumed;
    skipped_ = skipped;
    restore_more(state);
  }
  take_snapshot();
}

// Taken before each group, by the thread that pulls; those that were consumed are let go.
void Edge::take_snapshot() {
  kill_point("snapshot");
  StateWriter state(std::move(spare_snapshot_));
  if (free_order_) {
    state.put(had_.size());
    for (const std::uint64_t ordinal : had_) state.put(ordinal);
  }
  input_->save(state);
  MutexLock lock(mutex_);
  snapshots_.push_back({sequence_, state.take(), {}});
  while (snapshots_.size() > 1 && snapshots_[1].sequence <= consumed_) {
    spare_snapshot_ = snapshots_.pop_front().input;
  }
}

std::size_t Edge::pull(std::span<Item> out) {
  start();
  MutexLock lock(mutex_);
  for (bool late = false;;) {
    Status problem;
    if (run_.cancelled()) {
      problem = Status(ErrorCode::cancelled, "the run was cancelled");
    } else if (broken_) {
      if (!breakdown_) return 0;
      out[0] = item_of(std::move(breakdown_), 0);
      return 1;
    } else if (const std::size_t count = deliver(out); count > 0) {
      return count;
    } else if (drained()) {
      return 0;
    } else {
      const Resting resting;
      problem = stuck();
    }
    if (!problem.ok()) {
      out[0] = item_of(Parcel::make(std::move(problem)), 0);
      return 1;
    }
    waiting_ = true;
    const Resting resting;
    if (in_flight_ > 0 && !late) {
      late = !changed_.wait_for(mutex_, std::chrono::milliseconds(2));
    } else {
      run_.waker().urgent.fetch_add(1, std::memory_order_seq_cst);
      run_.waker().notify();  // whatever room there is must be used now
      changed_.wait_for(mutex_, std::chrono::milliseconds(100));
      run_.waker().urgent.fetch_sub(1, std::memory_order_seq_cst);
    }
    waiting_ = false;
  }
}

Group& Edge::take_group() {
  MutexLock lock(mutex_);
  if (free_groups_.empty()) {
    groups_.push_back(std::make_unique<Group>());
    groups_.back()->items.resize(sizer_.most());
    return *groups_.back();
  }
  Group& group = *free_groups_.back();
  free_groups_.pop_back();
  return group;
}

void Edge::recycle(Group& group) {
  for (std::size_t i = 0; i < group.count; ++i) group.items[i] = Item();
  for (std::size_t i = 0; i < std::min(group.count, group.work.size()); ++i) {
    group.work[i].element.clear();
    group.work[i].status = Status();
  }
  group.failures.clear();
  group.context.reset();
  group.count = 0;
  free_groups_.push_back(&group);
}

void Edge::break_down() noexcept {
  MutexLock lock(mutex_);
  broken_ = true;
  changed_.notify_all();
}

void Edge::abandon(Group& group) noexcept {
  break_down();
  run_.active.fetch_sub(1, std::memory_order_acq_rel);
  MutexLock lock(mutex_);
  if (std::exchange(group.ready, false)) --ready_;
  if (--in_flight_ == 0 && stopping()) changed_.notify_all();
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
    const std::size_t wanted = std::min(room, sizer_.size());
    const auto start = Clock::now();
    if (!input_threw_) {
      take_snapshot();
      fill(group, wanted);
    }
    count_wait(counters_->wait_input_ns, start);
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
  const AtWork at_work(run_);
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
  group.context.emplace(run_.memory(), key_, run_.retry());
  const bool reads = reads_block(group.all_items());
  const std::size_t kept = stores() && !reads ? std::min(group.count, kChunk) : group.count;
  if (group.work.size() < kept) group.work.resize(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    group.work[i].keep = true;
    group.work[i].row = Row();
  }
  const std::uint64_t bytes = read_bytes(group.all_items());
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
    group.ready = !reads;
    ready_ += reads ? 0 : 1;
  }
  run_.active.fetch_add(1, std::memory_order_acq_rel);
  run_.groups.fetch_add(1, std::memory_order_acq_rel);
  try {
    if (reads) {
      run_.submit([this, &group] { read(group); }, true);
    } else {
      run_.submit([this, &group] { compute(group); }, ops_block(group.all_items()));
    }
  } catch (...) {
    abandon(group);
    return false;
  }
  kill_point("handed over");
  return true;
}

void Edge::read(Group& group) noexcept {
  try {
    if (!stopping()) {
      read_items(group.all_items(), group.all_work(), group.all_rows(), *group.context);
    }
    {
      MutexLock lock(mutex_);
      group.ready = true;
      ++ready_;
    }
    if (!ops_block(group.all_items())) {
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
      make(group, reads_block(group.all_items()));
      sizer_.learn(group.count, Clock::now() - start, group.context->allocated());
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
      run_.active.fetch_sub(1, std::memory_order_acq_rel);
      starve(group);
      return;
    }
  }
  run_.active.fetch_sub(1, std::memory_order_acq_rel);
  finish(group);
}

// Results that are stored at once are made in chunks that stay in the cache.
void Edge::make(Group& group, bool was_read) {
  const std::size_t step = stores() && !was_read ? kChunk : group.count;
  for (std::size_t first = 0; first < group.count; first += step) {
    const std::size_t count = std::min(step, group.count - first);
    const std::span<WorkItem> work(group.work.data(), count);
    const std::span<const Row> rows = group.all_rows();
    compute_items(group.all_items().subspan(first, count), work,
                  rows.empty() ? rows : rows.subspan(first, count), *group.context);
    if (stores()) store(group, first, work);
  }
}

// What the group holds is given back before it waits in line.
void Edge::starve(Group& group) noexcept {
  for (std::size_t i = 0; i < std::min(group.count, group.work.size()); ++i) {
    group.work[i].element.clear();
    group.work[i].status = Status();
  }
  group.failures.clear();
  unstore(group);
  group.context.reset();
  group.redone = 0;
  try {
    run_.starved().add(*this, group);
  } catch (...) {
    break_down();
    finish(group);
  }
}

bool Edge::redo(Group& group, bool last_try) noexcept {
  try {
    return make_again(group, last_try);
  } catch (...) {
    break_down();
    return true;
  }
}

bool Edge::make_again(Group& group, bool last_try) {
  const auto impossible = [this](const GroupContext& context) {
    return context.starved_bytes() > run_.memory().limit();
  };
  for (; group.redone < group.count && !stopping(); ++group.redone) {
    const std::size_t at = group.redone;
    const std::span<WorkItem> work(group.work.data() + (stores() ? 0 : at), 1);
    const auto items = group.all_items().subspan(at, 1);
    const auto rows = group.rows.empty() ? group.all_rows() : group.all_rows().subspan(at, 1);
    work[0].element.clear();
    work[0].status = Status();
    work[0].keep = true;
    work[0].row = Row();
    GroupContext& context = group.context.emplace(run_.memory(), key_, run_.retry());
    if (reads_block(items)) read_items(items, work, rows, context);
    compute_items(items, work, rows, context);
    if (stores()) store(group, at, work);
    if (!context.starved() || impossible(context) || std::exchange(last_try, false)) continue;
    work[0].element.clear();
    work[0].status = Status();
    if (!group.failures.empty() && group.failures.back().first == at) group.failures.pop_back();
    group.context.reset();
    return false;
  }
  return true;
}

bool Edge::evict() {
  Group* last = nullptr;
  {
    MutexLock lock(mutex_);
    if (stopping()) return false;
    last = last_undelivered();
    if (last == nullptr) return false;
    last->done = false;
    last->starved = true;
    ++starved_;
    ++in_flight_;
  }
  starve(*last);
  return true;
}

void Edge::finish(Group& group) noexcept {
  kill_point("group done");
  bool wake = false;
  bool was_crowded = false;
  {
    MutexLock lock(mutex_);
    group.done = true;
    was_crowded = crowded();
    if (std::exchange(group.starved, false)) --starved_;
    if (std::exchange(group.ready, false)) --ready_;
    if (reads_block_ && ready_ == 0 && in_flight_ > read_ahead_) {
      read_ahead_ = std::min(2 * read_ahead_, kMostReadAhead);  // nothing was left to work on
    }
    try {
      finished(group);
    } catch (...) {
      broken_ = true;
    }
    wake = waiting_;
  }
  // Not under the lock, which the woken thread takes first; and before the edge may be destroyed.
  if (wake) changed_.notify_all();
  MutexLock lock(mutex_);
  if (was_crowded) run_.waker().notify();
  --in_flight_;
  if (in_flight_ == 0 && stopping()) changed_.notify_all();
}

}  // namespace penstock
