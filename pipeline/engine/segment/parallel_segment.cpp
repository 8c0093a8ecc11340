#include "pipeline/engine/segment/parallel_segment.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <penstock/internal/start_thread.h>

#include "pipeline/core/kill_point.h"
#include "pipeline/core/thread_name.h"
#include "pipeline/engine/make/executor.h"
#include "pipeline/engine/run/consumer_times.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFreeGroup = 128;  // keeps states small

bool has_unordered(const Node& node) {
  for (const NodePtr& input : node.inputs()) {
    if (!input->ordered() || has_unordered(*input)) return true;
  }
  return false;
}

/// Adds the nanoseconds since `start` to `counter`.
void count_wait(std::atomic<std::uint64_t>& counter, Clock::time_point start) {
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  counter.fetch_add(static_cast<std::uint64_t>(waited.count()), std::memory_order_relaxed);
}

constexpr std::size_t kMostReadAhead = 64;
constexpr std::chrono::milliseconds kLater(100);  // a consumer that waits looks again

}  // namespace

/// A guard: this thread arranges elements for a segment, and its stages hold what it allocates.
class ParallelSegment::Arranging {
 public:
  explicit Arranging(const ParallelSegment& segment) noexcept
      : here_(segment.held_), outer_(std::exchange(current, &segment)) {}
  ~Arranging() { current = outer_; }
  Arranging(const Arranging&) = delete;
  Arranging& operator=(const Arranging&) = delete;

  /// Returns the segment for which this thread arranges elements of this run; null if there is
  /// none.
  static const ParallelSegment* of(const Services& run) noexcept {
    return current != nullptr && &current->run_.activity == &run.activity ? current : nullptr;
  }

 private:
  static thread_local const ParallelSegment* current;
  const HeldBytes::Here here_;
  const ParallelSegment* const outer_;
};

thread_local const ParallelSegment* ParallelSegment::Arranging::current = nullptr;

ParallelSegment::ParallelSegment(const Services& services, const SegmentOwner& owner,
                                 OrderIteratorPtr input, const OpenContext& context,
                                 std::unique_ptr<Results> results, std::size_t group_limit,
                                 const MakeRunner& make_runner)
    : run_(services),
      stages_(context.run),
      exact_(run_.state.options().exact_state && !has_unordered(owner.node)),
      counters_(owner.counters),
      held_(owner.held.stages),
      sizer_(std::clamp<std::size_t>(group_limit, 1,
                                     has_unordered(owner.node) ? kFreeGroup : SIZE_MAX),
             run_.state.plan().shares().group, owner.learnt.sizes),
      pace_(owner.learnt.reads),
      puller_(std::move(input), has_unordered(owner.node), exact_),
      results_(std::move(results)),
      snapshots_(has_unordered(owner.node), exact_),
      runner_(make_runner(
          {owner, epoch_key(run_.state.options().seed, context.epoch), results_->layout(), sizer_},
          *this)),
      breakdown_(Payload::make(Status::out_of_memory())) {
  results_->groups().share(owner.learnt.items);
  run_.segments.add(*this);
}

ParallelSegment::~ParallelSegment() {
  stopping_.store(true, std::memory_order_release);
  runner_->stop();
  run_.waker.notify();
  run_.memory.wake();
  run_.segments.wake();  // the thread may be in the pull of another segment
  if (thread_.joinable()) thread_.join();
  runner_->stop();  // ends groups handed over in the meantime
  let_go();
  {
    MutexLock lock(mutex_);
    consumer_waits_ = true;
    while (in_flight_ > 0) changed_->wait(mutex_);
    results_->settle();
  }
  run_.segments.remove(*this);
}

bool ParallelSegment::stopping() const noexcept {
  return stopping_.load(std::memory_order_acquire) || run_.state.cancelled();
}

void ParallelSegment::wake() noexcept {
  MutexLock lock(mutex_);
  tell_consumer();
}

void ParallelSegment::start() {
  {
    MutexLock lock(mutex_);
    if (started_) return;
    started_ = true;
  }
  try {
    // Needed if the input knows more than a fresh one, such as a full cache.
    take_snapshot();
    thread_ = start_thread("arranging elements", [this] { dispatch(); });
  } catch (...) {
    MutexLock lock(mutex_);
    // The next pull tries again instead of waiting for a thread that does not exist.
    started_ = false;
    throw;
  }
}

void ParallelSegment::on_exhausted(std::function<void()> callback) {
  {
    MutexLock lock(mutex_);
    if (!input_ended_) {
      exhausted_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool ParallelSegment::broken() const {
  MutexLock lock(mutex_);
  return broken_ || threw_at_ != UINT64_MAX;
}

void ParallelSegment::save(StateWriter& state) const {
  MutexLock lock(mutex_);
  const std::uint64_t consumed = std::min(results_->consumed(), threw_at_);
  state.put(consumed);
  state.put(results_->skipped());
  snapshots_.save(state, consumed);
  results_->save(state);
}

void ParallelSegment::restore(StateReader& state) {
  const std::uint64_t consumed = state.get();
  const std::uint64_t skipped = state.get();
  {
    Snapshots saved(puller_.free_order(), exact_);
    const HeldBytes::Here here(held_);
    puller_.restore(state, consumed, exact_ ? &saved : nullptr);
    MutexLock lock(mutex_);
    snapshots_ = std::move(saved);
    results_->restore(state, consumed, skipped);
  }
  take_snapshot();
}

std::size_t ParallelSegment::pull(std::span<ElementRef> out) {
  start();
  for (;;) {
    const std::optional<std::size_t> count = try_pull(out);
    let_go();
    if (!count) {
      wait(kLater);
      continue;
    }
    for (const ElementRef& item : out.first(*count))
      hold(item, run_.memory.held().here_or_elsewhere());
    return *count;
  }
}

std::optional<std::size_t> ParallelSegment::try_pull(std::span<ElementRef> out) {
  stages_.check_stop();
  MutexLock lock(mutex_);
  news_seen_ = news_;
  if (run_.step_back.must_find_out()) return 0;
  const std::size_t count = deliver(out);
  if (spent_ == nullptr) spent_ = results_->spent();
  if (count == 0 && !broken_ && !results_->drained() && !run_.step_back.wanted()) {
    return std::nullopt;
  }
  late_ = false;
  return count;
}

void ParallelSegment::let_go() noexcept {
  if (spent_ == nullptr) return;
  for (Group* group = spent_; group != nullptr; group = group->next) group->let_go();
  MutexLock lock(mutex_);
  while (Group* const group = spent_) {
    spent_ = std::exchange(group->next, nullptr);
    results_->reuse(*group);
  }
}

void ParallelSegment::wait(std::chrono::milliseconds most) {
  constexpr std::chrono::milliseconds kAtFirst(2);
  if (arrange_here()) return;
  bool late = false;
  {
    MutexLock lock(mutex_);
    if (news_ != news_seen_) return;
    consumer_waits_ = true;
    waits_for_ = Arranging::of(run_);
    late = in_flight_ == 0 || late_;
  }
  run_.line.wake_those_ahead();  // they may not be ahead any more
  if (late) {
    run_.waker.urgent.fetch_add(1, std::memory_order_seq_cst);
    run_.waker.notify();  // all available room must be used now
    run_.executors.look();
  }
  {
    const Resting resting(news_, news_seen_);
    const TimedRest timed;
    MutexLock lock(mutex_);
    const bool told =
        news_ != news_seen_ || changed_->wait_for(mutex_, std::min(most, late ? kLater : kAtFirst));
    if (!late) late_ = !told;
    consumer_waits_ = false;
  }
  if (late) run_.waker.urgent.fetch_sub(1, std::memory_order_seq_cst);
}

// Called after a change that lets a waiting consumer continue.
void ParallelSegment::tell_consumer() noexcept {
  ++news_;
  changed_->notify_all();
}

// Delivers the results that the consumer can get now. Throws if the engine failed: a stage behind
// this one must not take the missing items for the end of its input.
std::size_t ParallelSegment::deliver(std::span<ElementRef> out) {
  if (broken_) {
    if (!breakdown_) return 0;
    const Ref<Payload> reason = std::move(breakdown_);
    throw Error(reason->status.error());
  }
  // More than one would be as many as are made by now.
  if (exact_) out = out.first(1);
  if (const std::size_t count = results_->take(out); count > 0) return count;
  if (results_->drained() || run_.step_back.wanted()) return 0;
  if (!no_slot_) return 0;
  out[0] = ref_to(std::move(no_slot_), 0);
  return 1;
}

void ParallelSegment::dispatch() noexcept {
  name_this_thread("penstock-order");
  const AtWork at_work(run_.activity, AtWork::Arranges{stopping_});
  try {
    std::size_t room = wait_for_room(false);
    while (room > 0 && arrange(room)) room = wait_for_room(true);
  } catch (...) {
    broke_down();
  }
}

// Does what the segment's thread does: handing each element from thread to thread takes longer than
// making it. The thread that calls `next` never does this, because a callable may hang.
bool ParallelSegment::arrange_here() {
  if (!run_.step_back.alone() || !run_.activity.arranges_here()) return false;
  {
    MutexLock lock(mutex_);
    if (news_ != news_seen_) return true;
    consumer_waits_ = true;
    waits_for_ = Arranging::of(run_);
  }
  bool arranged = false;
  try {
    if (const std::optional<std::size_t> room = begin_arranging(false)) {
      arranged = *room > 0;
      if (arranged) arrange(*room);
      MutexLock lock(mutex_);
      arranging_ = false;
    }
  } catch (...) {
    broke_down();
  }
  {
    MutexLock lock(mutex_);
    consumer_waits_ = false;
  }
  // The segment's thread may have been woken meanwhile, to make more than one at a time.
  if (!run_.step_back.alone()) run_.waker.notify();
  return arranged;
}

// Waits until elements may be handed over and returns how many; 0 to stop. `begun` says whether
// this thread is the one that arranges.
std::size_t ParallelSegment::wait_for_room(bool begun) {
  const auto start = Clock::now();
  for (;; begun = false) {
    const std::uint64_t seen = run_.waker.count();
    if (stopping()) return 0;
    if (const std::optional<std::size_t> room = begin_arranging(begun)) {
      count_wait(counters_.wait_output_ns, start);
      return *room;
    }
    const Resting resting(run_.waker.events(), seen);
    run_.waker.wait(seen);
  }
}

// Returns how many elements may be handed over, 0 if no more are to come, and nothing if none may
// be for now, or if another thread arranges some. Otherwise this thread is the one that arranges.
std::optional<std::size_t> ParallelSegment::begin_arranging(bool begun) {
  for (;; begun = true) {
    SlotPool* claimed = nullptr;
    {
      MutexLock lock(mutex_);
      if (!begun && arranging_) return std::nullopt;
      arranging_ = true;
      if (arranged_all_) return 0;
      if (const std::size_t room = results_->room(demand()); room > 0) return room;
      claimed = results_->claimed();
      if (claimed == nullptr) {
        arranging_ = false;
        return std::nullopt;
      }
    }
    Ref<Slot> slot = claimed->make();
    MutexLock lock(mutex_);
    results_->add_slot(std::move(slot));
  }
}

// Hands over the next elements. Returns false if no more are to come.
bool ParallelSegment::arrange(std::size_t room) noexcept {
  run_.ledger.write_down();
  run_.tuning.write_down();
  bool more = false;
  try {
    more = hand_over_some(room);
  } catch (...) {
    broke_down();
  }
  if (more) return true;
  MutexLock lock(mutex_);
  arranged_all_ = true;
  return false;
}

bool ParallelSegment::hand_over_some(std::size_t room) {
  if (skips_next()) {
    skip(room);
    return true;
  }
  Group& group = take_group();
  pull_into(group, room);
  if (stopping()) return false;  // the pull may have been cut short, so this need not be the end
  if (group.count > 0) return hand_over(group);
  end_of_input();
  return false;
}

Group& ParallelSegment::take_group() {
  MutexLock lock(mutex_);
  return results_->groups().take();
}

void ParallelSegment::pull_into(Group& group, std::size_t room) {
  const auto start = Clock::now();
  if (!puller_.threw()) {
    take_snapshot();
    {
      const AtWork at_work(run_.activity, AtWork::Arranges{stopping_});
      const Arranging arranging(*this);
      puller_.pull(group, std::min({room, runner_->most(), before_snapshot()}));
    }
    group.input_bytes = group.alike ? 0 : take_from_holder(group.all_items());
    if (puller_.free_order() || puller_.threw()) {
      MutexLock lock(mutex_);
      snapshots_.note(group.all_items());
      if (puller_.threw()) threw_at_ = group.first + group.count - 1;
    }
  }
  count_wait(counters_.wait_input_ns, start);
}

bool ParallelSegment::skips_next() const {
  if (!run_.state.share() || puller_.threw()) return false;
  MutexLock lock(mutex_);
  return results_->skips_next();
}

void ParallelSegment::skip(std::size_t count) {
  const auto start = Clock::now();
  take_snapshot();
  const std::uint64_t first = puller_.sequence();
  {
    const AtWork at_work(run_.activity, AtWork::Arranges{stopping_});
    const Arranging arranging(*this);
    count = std::min(count, before_snapshot());
    puller_.skip(count);
  }
  count_wait(counters_.wait_input_ns, start);
  Ref<Slot> dropped;
  const MutexLock lock(mutex_);
  results_->skip(first, count);
  dropped = results_->dropped();
  tell_consumer();
}

// Returns how many elements may be pulled before the next snapshot. Exact states hold snapshots
// that lie at the same elements in each run.
std::size_t ParallelSegment::before_snapshot() const {
  return exact_ ? kExactEvery - puller_.sequence() % kExactEvery : SIZE_MAX;
}

// Called before each group. Snapshots of consumed groups are dropped.
void ParallelSegment::take_snapshot() {
  kill_point("snapshot");
  if (before_snapshot() < kExactEvery) {
    MutexLock lock(mutex_);
    if (!snapshots_.empty()) return;
  }
  std::string position = puller_.position(std::move(reusable_));
  MutexLock lock(mutex_);
  snapshots_.add(puller_.sequence(), std::move(position));
  reusable_ = snapshots_.trim(results_->consumed());
}

void ParallelSegment::end_of_input() {
  std::function<void()> exhausted;
  Ref<Slot> dropped;
  {
    MutexLock lock(mutex_);
    input_ended_ = true;
    results_->end();
    dropped = results_->dropped();
    exhausted = std::move(exhausted_);
    tell_consumer();
  }
  if (exhausted && !stopping()) exhausted();
}

// True if the run's caller waits for this segment, from segment to segment.
bool ParallelSegment::at_head() const {
  MutexLock lock(mutex_);
  return consumer_waits_ && (waits_for_ == nullptr || waits_for_->at_head());
}

// Reserves the bytes for reading in the budget, for this group. If memory is scarce, reserves all
// that the group is likely to take, so that it does not find out halfway. Returns false to stop.
bool ParallelSegment::reserve(Group& group) {
  std::uint64_t bytes = group.read_bytes;
  if (run_.memory.scarce() && !run_.step_back.alone())
    bytes = std::max(bytes, sizer_.bytes_of(group.count));
  if (bytes == 0) return true;
  const auto start = Clock::now();
  const Counted may_be_ahead = run_.line.may_be_ahead();
  for (;;) {
    const std::uint64_t seen = run_.memory.releases();
    const bool ahead = !at_head();
    if (run_.memory.reserve(bytes, ahead)) {
      group.context->promise(bytes);
      break;
    }
    if (stopping()) return false;
    // If no other work will make room for a group that is needed, it tries with what there is.
    const auto otherwise = ahead ? MemoryLine::Otherwise::wait : MemoryLine::Otherwise::do_without;
    if (bytes > run_.memory.limit() || !run_.line.wait(seen, otherwise)) break;
  }
  count_wait(counters_.wait_memory_ns, start);
  return true;
}

// Allows enough ready groups to keep every thread busy. If groups wait for a device, it allows as
// many more as keep the threads from waiting for it too.
std::size_t ParallelSegment::group_limit() const {
  if (run_.step_back.alone()) return 1;
  const std::size_t ready = 2 * static_cast<std::size_t>(run_.state.threads()) + 4;
  return run_.step_back.narrowed(
      ready + runner_->elsewhere() +
      (reads_block_ ? pace_.groups_ahead.load(std::memory_order_relaxed) : 0));
}

bool ParallelSegment::crowded(std::size_t limit) const {
  const std::size_t ready = 2 * static_cast<std::size_t>(run_.state.threads()) + 4;
  return in_flight_ >= limit || ready_ >= ready || blocked_ > 0;
}

// True if slow reads leave threads without work.
bool ParallelSegment::reads_lag() const {
  return reads_block_ && ready_ == 0 && in_flight_ > 0 && pace_.slow();
}

// True if more elements could be worked on at once. Groups that are being read are held up by
// reads. Ops that wait are given as many threads as they need.
bool ParallelSegment::threads_idle() const {
  if (reads_block_ && ready_ < in_flight_) return false;
  return ops_block_ || in_flight_ < static_cast<std::size_t>(run_.state.threads());
}

// True if the consumer waits for another element. It may not have looked at the last one yet.
bool ParallelSegment::lacks_output() const {
  return consumer_waits_ && !results_->has_output();
}

Demand ParallelSegment::demand() const {
  const std::size_t limit = group_limit();
  const bool alone = run_.step_back.alone();
  return {.wanted = alone ? 1 : sizer_.size(),
          .group_limit = limit,
          .crowded = crowded(limit) || (alone && !lacks_output()),
          .consumer_waits = consumer_waits_,
          .alone = alone,
          .reads_lag = reads_lag(),
          .threads_idle = threads_idle(),
          .roomy = run_.memory.room() >= run_.state.plan().shares().free_for_more};
}

bool ParallelSegment::hand_over(Group& group) {
  runner_->prepare(group);
  if (!reserve(group)) return false;
  const bool waits = ops_block(group.samples());
  {
    MutexLock lock(mutex_);
    reads_block_ = group.reads;
    ops_block_ = waits;
    results_->admit(group);
    ++in_flight_;
    set_ready(group, !group.reads && runner_->elsewhere() == 0);
  }
  run_.activity.began();
  try {
    runner_->begin(group);
  } catch (...) {
    broke_down();
    group_lost(group);
    return false;
  }
  kill_point("handed over");
  return true;
}

void ParallelSegment::set_ready(Group& group, bool ready) noexcept {
  if (std::exchange(group.ready, ready) == ready) return;
  if (ready) {
    ++ready_;
    run_.activity.group_ready();
  } else {
    run_.activity.take_off(ready_);
    // An order thread may wait for this before it makes another slot.
    if (run_.activity.group_not_ready()) run_.waker.notify();
  }
}

// Counts one group less in flight.
void ParallelSegment::land() noexcept {
  run_.activity.take_off(in_flight_);
  if (in_flight_ == 0 && stopping()) changed_->notify_all();
}

void ParallelSegment::group_ready(Group& group) noexcept {
  MutexLock lock(mutex_);
  set_ready(group, true);
}

// At work until its results are where the consumer finds them. This may be destroyed by then.
void ParallelSegment::group_done(Group& group) noexcept {
  Activity& activity = run_.activity;
  finish(group);
  activity.ended();
}

void ParallelSegment::group_lost(Group& group) noexcept {
  run_.activity.ended();
  MutexLock lock(mutex_);
  set_ready(group, false);
  land();
}

void ParallelSegment::group_blocked(Group& group) noexcept {
  {
    MutexLock lock(mutex_);
    ++blocked_;
    group.blocked = true;
  }
  // This may be destroyed as soon as the group is in line.
  Activity& activity = run_.activity;
  wait_in_line(group);
  activity.ended();
}

void ParallelSegment::finish(Group& group) noexcept {
  kill_point("group done");
  // This object may be destroyed as soon as the group has landed.
  Waker& waker = run_.waker;
  const StepBack& step_back = run_.step_back;
  if (group.places.empty()) {
    note_views(group.all_work());
  } else {
    group.let_go();
  }
  std::shared_ptr<CondVar> waiting;
  Ref<Slot> dropped;
  bool made_room = false;
  {
    MutexLock lock(mutex_);
    made_room = crowded(group_limit());
    group.done = true;
    if (std::exchange(group.blocked, false)) run_.activity.take_off(blocked_);
    set_ready(group, false);
    read_further_ahead();
    try {
      results_->complete(group);
    } catch (...) {
      break_down();
    }
    dropped = results_->dropped();
    ++news_;
    if (consumer_waits_) waiting = changed_;
    run_.activity.take_off(in_flight_);
    made_room = made_room || reads_lag() || (threads_idle() && results_->waits_for_head());
  }
  // Not under the lock, because the woken thread takes it first.
  if (waiting) waiting->notify_all();
  // A consumer that waits for one element wakes the thread itself.
  if (made_room && !step_back.alone()) waker.notify();
}

// Reads more groups ahead if no work was left while reads were under way.
void ParallelSegment::read_further_ahead() noexcept {
  const std::size_t ahead = pace_.groups_ahead.load(std::memory_order_relaxed);
  if (!reads_block_ || ready_ > 0 || in_flight_ <= ahead) return;
  const std::size_t more = std::min(2 * ahead, kMostReadAhead);
  pace_.groups_ahead.store(more, std::memory_order_relaxed);
  if (more == ahead) return;
  const auto each = std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * pace_.latency_ms()));
  run_.tuning.note("groups read ahead", ahead, more, [each, reading = in_flight_] {
    return std::to_string(reading) + " groups were being read, " + in_ms(each) +
           " a read, and none was left to work on";
  });
}

bool ParallelSegment::needs(const Group& group) const {
  MutexLock lock(mutex_);
  return stopping() || results_->is_first(group);
}

void ParallelSegment::wait_in_line(Group& group) noexcept {
  try {
    run_.line.add(*this, group);
  } catch (...) {
    broke_down();
    finish(group);
  }
}

bool ParallelSegment::redo(Group& group, bool last_try) noexcept {
  try {
    return stopping() || runner_->remake(group, last_try);
  } catch (...) {
    broke_down();
    return true;
  }
}

const SlotPool* ParallelSegment::lacks_slot() const {
  MutexLock lock(mutex_);
  return consumer_waits_ ? results_->lacks_slot() : nullptr;
}

void ParallelSegment::fail_slot(bool for_good) noexcept {
  MutexLock lock(mutex_);
  if (!consumer_waits_ || results_->lacks_slot() == nullptr || broken_) return;
  try {
    (for_good ? breakdown_ : no_slot_) = Payload::make(results_->no_slot());
    broken_ = for_good;
    tell_consumer();
  } catch (...) {
    break_down();
  }
}

void ParallelSegment::broke_down() noexcept {
  MutexLock lock(mutex_);
  break_down();
}

// Called in a catch block: the engine itself has failed, and this segment ends with that error.
// Needs no memory. If there is none for this error, an error that says so is delivered.
void ParallelSegment::break_down() noexcept {
  try {
    if (!std::exchange(broken_, true)) {
      breakdown_ = Payload::make(status_from_current_exception());
    }
  } catch (...) {
    // The error that was made beforehand is delivered.
  }
  tell_consumer();
}

}  // namespace penstock
