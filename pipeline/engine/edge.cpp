#include "pipeline/engine/edge.h"

#include <algorithm>

#include "pipeline/core/kill_point.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kChunk = 64;

}  // namespace

void count_wait(std::atomic<std::uint64_t>& counter, Clock::time_point start) {
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  counter.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
}

void GroupSizer::learn(std::size_t count, std::chrono::nanoseconds took) noexcept {
  if (count == 0) return;
  const double each = std::max(1.0, static_cast<double>(took.count()) / static_cast<double>(count));
  const std::size_t now = size();
  // At most doubled at a time, so that one lucky group can't make a huge next one.
  const double wanted = std::min(kTargetNs / each, 2.0 * static_cast<double>(std::max(now, count)));
  size_.store(std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, most_),
              std::memory_order_relaxed);
}

Edge::Edge(Run& run, const Node& owner, OrderIteratorPtr input, std::uint64_t key,
           std::size_t group_limit)
    : run_(run),
      owner_(owner),
      counters_(run.counters(owner)),
      sizer_(std::max<std::size_t>(group_limit, 1)),
      input_(std::move(input)),
      key_(key) {
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
  state.put(snapshots_.empty() ? 0 : 1);
  if (!snapshots_.empty()) {
    std::size_t last = 0;
    while (last + 1 < snapshots_.size() && snapshots_[last + 1].sequence <= consumed_) ++last;
    state.put(consumed_ - snapshots_[last].sequence);
    state.put_bytes(snapshots_[last].input);
  }
  save_more(state);
}

void Edge::restore(StateReader& state) {
  const std::uint64_t consumed = state.get();
  if (state.get() != 0) {
    const std::uint64_t passed = state.get();
    StateReader input(state.get_bytes());
    input_->restore(input);
    if (passed > 0) input_->discard(passed);
  }
  sequence_ = consumed;
  {
    MutexLock lock(mutex_);
    consumed_ = consumed;
    restore_more(state);
  }
  take_snapshot();
}

// Taken before each group, by the thread that pulls; those that were consumed are let go.
void Edge::take_snapshot() {
  kill_point("snapshot");
  StateWriter state(std::move(spare_snapshot_));
  input_->save(state);
  MutexLock lock(mutex_);
  snapshots_.push_back({sequence_, state.take()});
  while (snapshots_.size() > 1 && snapshots_[1].sequence <= consumed_) {
    spare_snapshot_ = snapshots_.pop_front().input;
  }
}

std::size_t Edge::pull(std::span<Item> out) {
  start();
  MutexLock lock(mutex_);
  for (;;) {
    Status problem;
    if (run_.cancelled()) {
      problem = Status(ErrorCode::cancelled, "the run was cancelled");
    } else if (const std::size_t count = deliver(out); count > 0) {
      return count;
    } else if (drained()) {
      return 0;
    } else {
      problem = stuck();
    }
    if (!problem.ok()) {
      out[0] = item_of(Parcel::make(std::move(problem)), 0);
      return 1;
    }
    waiting_ = true;
    if (!changed_.wait_for(mutex_, std::chrono::milliseconds(2))) {
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

void Edge::dispatch() {
  while (!stopping()) {
    const std::size_t room = wait_for_room();
    if (room == 0 || stopping()) return;
    Group& group = take_group();
    const std::size_t wanted = std::min(room, sizer_.size());
    const auto start = Clock::now();
    if (!broken_) {
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
    if (!hand_over(group)) return;
  }
}

// Takes what is there: a source that gives less than it was asked for is not asked again.
void Edge::fill(Group& group, std::size_t wanted) {
  try {
    while (group.count < wanted) {
      const std::size_t asked = std::min(wanted - group.count, kBlock);
      const std::size_t pulled = input_->pull({group.items.data() + group.count, asked});
      group.count += pulled;
      if (pulled < asked) break;
    }
  } catch (...) {
    group.items[group.count++] = item_of(Parcel::make(status_from_current_exception()), sequence_);
    broken_ = true;
  }
}

bool Edge::hand_over(Group& group) {
  group.context.emplace(run_.memory(), key_);
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
    for (;;) {
      const std::uint64_t seen = run_.memory().releases();
      if (run_.memory().reserve(bytes)) {
        group.context->promise(bytes);
        break;
      }
      if (stopping()) return false;
      // Nobody will make room: let the group try with what there is, and fail by name.
      if (bytes > run_.memory().limit() || run_.hopeless(seen)) break;
    }
    count_wait(counters_->wait_memory_ns, start);
  }
  {
    MutexLock lock(mutex_);
    ++in_flight_;
    reads_block_ = reads;
    admit(group);
  }
  run_.active.fetch_add(1, std::memory_order_acq_rel);
  if (reads) {
    run_.submit([this, &group] { read(group); }, true);
  } else {
    const bool may_wait = ops_block(group.all_items());
    run_.submit([this, &group] { compute(group, false); }, may_wait);
  }
  kill_point("handed over");
  return true;
}

void Edge::read(Group& group) {
  if (!stopping()) {
    read_items(group.all_items(), group.all_work(), group.all_rows(), *group.context);
  }
  if (ops_block(group.all_items())) {
    compute(group, true);
  } else {
    run_.submit([this, &group] { compute(group, false); }, false);
  }
}

void Edge::compute(Group& group, bool may_wait) {
  if (!stopping()) {
    const auto start = Clock::now();
    make(group, reads_block(group.all_items()));
    sizer_.learn(group.count, Clock::now() - start);
    if (group.context->starved()) {
      run_.active.fetch_sub(1, std::memory_order_acq_rel);  // nobody need wait for it
      if (may_wait) {
        rerun(group);
      } else {
        run_.submit(
            [this, &group] {
              rerun(group);
              finish(group);
            },
            true);
        return;
      }
    }
  }
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

// There was no memory. What the group holds is given back, and it is done again, one such group at
// a time, until it fits or nobody else is at work who could make room.
void Edge::rerun(Group& group) {
  MutexLock lock(run_.starved);
  while (!stopping()) {
    for (WorkItem& item : group.work) {
      item.element.clear();
      item.status = Status();
      item.keep = true;
      item.row = Row();
    }
    group.failures.clear();
    group.context.emplace(run_.memory(), key_);
    const std::uint64_t seen = run_.memory().releases();
    const bool reads = reads_block(group.all_items());
    if (reads) read_items(group.all_items(), group.all_work(), group.all_rows(), *group.context);
    make(group, reads);
    if (!group.context->starved()) break;
    if (group.context->starved_bytes() > run_.memory().limit() || run_.hopeless(seen)) break;
  }
  run_.active.fetch_add(1, std::memory_order_acq_rel);
}

void Edge::finish(Group& group) {
  kill_point("group done");
  run_.active.fetch_sub(1, std::memory_order_acq_rel);
  bool wake = false;
  {
    MutexLock lock(mutex_);
    group.done = true;
    finished(group);
    wake = waiting_;
  }
  // Not under the lock, which the woken thread takes first; and before the edge may be destroyed.
  if (wake) changed_.notify_all();
  MutexLock lock(mutex_);
  if (crowded()) run_.waker().notify();
  --in_flight_;
  if (in_flight_ == 0 && stopping()) changed_.notify_all();
}

}  // namespace penstock
