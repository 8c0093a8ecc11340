#include "pipeline/engine/edge.h"

#include <algorithm>

#include "pipeline/core/kill_point.h"
#include "pipeline/core/start_thread.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

namespace {

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

Edge::Edge(Run& run, const Node& owner, OrderIteratorPtr input, const OpenContext& context,
           std::size_t group_limit)
    : run_(run),
      owner_(owner),
      counters_(run.counters(owner)),
      sizer_(std::clamp<std::size_t>(group_limit, 1, has_unordered(owner) ? kFreeGroup : SIZE_MAX),
             run.memory().limit() / (8 + 4 * static_cast<std::uint64_t>(run.threads())),
             run.learnt(owner).sizes),
      pace_(run.learnt(owner).reads),
      key_(epoch_key(run.options().seed, context.epoch)),
      account_{counters_, key_, context.counted},
      input_(std::move(input)),
      breakdown_(Parcel::make(Status::out_of_memory())),
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
  try {
    take_snapshot();  // of an input that knows more than a fresh one does, such as a full cache
    thread_ = start_thread("arranging elements", [this] { dispatch(); });
  } catch (...) {
    MutexLock lock(mutex_);
    started_ = false;  // whoever pulls tries again, rather than to wait for nobody
    throw;
  }
}

void Edge::stop() {
  stopping_.store(true, std::memory_order_release);
  run_.waker().notify();
  run_.memory().wake();
  run_.wake_pulls();  // the thread may be in one
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
  const std::uint64_t consumed = std::min(consumed_, threw_at_);
  state.put(consumed);
  state.put(skipped_);
  state.put(snapshots_.empty() ? 0 : 1);
  if (!snapshots_.empty()) {
    std::size_t last = 0;
    while (last + 1 < snapshots_.size() && snapshots_[last + 1].sequence <= consumed) ++last;
    const std::uint64_t passed = consumed - snapshots_[last].sequence;
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
  run_.ledger().restore(account_, {consumed, skipped});
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
    run_.check_stop();
    Status problem;
    if (broken_) {
      if (!breakdown_) return 0;
      out[0] = item_of(std::move(breakdown_), 0);
      return 1;
    } else if (const std::size_t count = deliver(out); count > 0) {
      return count;
    } else if (drained() || run_.steps_back()) {
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
      run_.look();
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
  // Records of a source hold nothing, and their program lives as long as the run.
  for (std::size_t i = 0; !group.alike && i < group.count; ++i) group.items[i] = Item();
  // Where results are stored, nothing of them is left.
  const std::size_t kept = stores() ? 0 : std::min(group.count, group.work.size());
  for (std::size_t i = 0; i < kept; ++i) {
    group.work[i].element.clear();
    group.work[i].status = Status();
  }
  group.failures.clear();
  group.strays.clear();
  group.context.reset();
  group.count = 0;
  group.redone = 0;
  group.taken = 0;
  free_groups_.push_back(&group);
}

void Edge::break_down() noexcept {
  MutexLock lock(mutex_);
  break_down_locked();
}

void Edge::break_down_locked() noexcept {
  try {
    if (!std::exchange(broken_, true)) {
      breakdown_ = Parcel::make(status_from_current_exception());
    }
  } catch (...) {
    // The error that was made beforehand is delivered.
  }
  changed_.notify_all();
}

}  // namespace penstock
