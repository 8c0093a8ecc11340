// The part of ParallelSegment that hands groups over, and handles them from then on.
#include <algorithm>
#include <chrono>
#include <string>

#include "pipeline/core/kill_point.h"
#include "pipeline/engine/run/run.h"
#include "pipeline/engine/segment/parallel_segment.h"

namespace penstock {

namespace {

constexpr std::size_t kMostReadAhead = 64;

}  // namespace

// Allows enough ready groups to keep every thread busy. If groups wait for a device, it allows as
// many more as keep the threads from waiting for it too.
std::size_t ParallelSegment::group_limit() const {
  if (run_.step_back().alone()) return 1;
  const std::size_t ready = 2 * static_cast<std::size_t>(run_.threads()) + 4;
  return ready + runner_->elsewhere() +
         (reads_block_ ? pace_.groups_ahead.load(std::memory_order_relaxed) : 0);
}

bool ParallelSegment::crowded(std::size_t limit) const {
  const std::size_t ready = 2 * static_cast<std::size_t>(run_.threads()) + 4;
  return in_flight_ >= limit || ready_ >= ready || starved_ > 0;
}

// True if slow reads leave threads without work.
bool ParallelSegment::reads_starve() const {
  return reads_block_ && ready_ == 0 && in_flight_ > 0 && pace_.slow();
}

// True if more elements could be worked on at once. Groups that are being read are held up by
// reads. Ops that wait are given as many threads as they need.
bool ParallelSegment::threads_starve() const {
  if (reads_block_ && ready_ < in_flight_) return false;
  return ops_block_ || in_flight_ < static_cast<std::size_t>(run_.threads());
}

// True if the consumer waits for another element. It may not have looked at the last one yet.
bool ParallelSegment::lacks_output() const {
  return consumer_waits_ && !results_->has_output();
}

Demand ParallelSegment::demand() const {
  const std::size_t limit = group_limit();
  const bool alone = run_.step_back().alone();
  return {.wanted = alone ? 1 : sizer_.size(),
          .most = alone ? 1 : sizer_.most(),
          .group_limit = limit,
          .crowded = crowded(limit) || (alone && !lacks_output()),
          .consumer_waits = consumer_waits_,
          .alone = alone,
          .reads_starve = reads_starve(),
          .threads_starve = threads_starve(),
          .roomy = run_.memory().room() >= run_.memory().limit() / 2};
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
  run_.activity().group_began();
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
    run_.activity().group_ready();
  } else {
    run_.activity().take_off(ready_);
    // An order thread may wait for this before it makes another slot.
    if (run_.activity().group_not_ready()) run_.waker().notify();
  }
}

// Counts one group less in flight.
void ParallelSegment::land() noexcept {
  run_.activity().take_off(in_flight_);
  if (in_flight_ == 0 && stopping()) changed_->notify_all();
}

void ParallelSegment::group_ready(Group& group) noexcept {
  MutexLock lock(mutex_);
  set_ready(group, true);
}

// At work until its results are where the consumer finds them. This may be destroyed by then.
void ParallelSegment::group_done(Group& group) noexcept {
  Activity& activity = run_.activity();
  finish(group);
  activity.group_ended();
}

void ParallelSegment::group_lost(Group& group) noexcept {
  run_.activity().group_ended();
  MutexLock lock(mutex_);
  set_ready(group, false);
  land();
}

void ParallelSegment::group_starved(Group& group) noexcept {
  {
    MutexLock lock(mutex_);
    ++starved_;
    group.starved = true;
  }
  run_.activity().group_ended();
  wait_in_line(group);
}

void ParallelSegment::finish(Group& group) noexcept {
  kill_point("group done");
  // This object may be destroyed as soon as the group has landed.
  Run& run = run_;
  std::shared_ptr<CondVar> waiting;
  bool made_room = false;
  {
    MutexLock lock(mutex_);
    made_room = crowded(group_limit());
    group.done = true;
    if (std::exchange(group.starved, false)) run_.activity().take_off(starved_);
    group.redoing = false;
    set_ready(group, false);
    read_further_ahead();
    try {
      results_->complete(group);
    } catch (...) {
      break_down();
    }
    ++news_;
    if (consumer_waits_) waiting = changed_;
    run_.activity().take_off(in_flight_);
    made_room = made_room || reads_starve() || (threads_starve() && results_->waits_for_head());
  }
  // Not under the lock, because the woken thread takes it first.
  if (waiting) waiting->notify_all();
  // A consumer that waits for one element wakes the thread itself.
  if (made_room && !run.step_back().alone()) run.waker().notify();
}

// Reads more groups ahead if no work was left while reads were under way.
void ParallelSegment::read_further_ahead() noexcept {
  const std::size_t ahead = pace_.groups_ahead.load(std::memory_order_relaxed);
  if (!reads_block_ || ready_ > 0 || in_flight_ <= ahead) return;
  const std::size_t more = std::min(2 * ahead, kMostReadAhead);
  pace_.groups_ahead.store(more, std::memory_order_relaxed);
  if (more == ahead) return;
  const auto each = std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * pace_.latency_ms()));
  run_.tuning().note("groups read ahead", ahead, more, [each, reading = in_flight_] {
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
    run_.starved().add(*this, group);
  } catch (...) {
    broke_down();
    finish(group);
  }
}

bool ParallelSegment::redo(Group& group, bool last_try) noexcept {
  std::size_t made = 0;
  {
    MutexLock lock(mutex_);
    group.redoing = true;  // until it is done, or could not be done
    made = group.redone;
  }
  try {
    while (made < group.count && !stopping()) {
      if (!runner_->remake(group, made, last_try)) {
        MutexLock lock(mutex_);
        group.redoing = false;
        return false;
      }
      note_redone(group, ++made);
    }
  } catch (...) {
    broke_down();
  }
  return true;
}

// Notes more results of a starved group. The consumer may take them at once and so make room for
// the next.
void ParallelSegment::note_redone(Group& group, std::size_t count) noexcept {
  run_.activity().advanced();
  bool wake = false;
  {
    MutexLock lock(mutex_);
    group.redone = count;
    try {
      results_->redone(group);
    } catch (...) {
      break_down();
    }
    if (results_->layout() == nullptr) ++news_;
    wake = consumer_waits_ && results_->layout() == nullptr;
  }
  if (wake) changed_->notify_all();
}

bool ParallelSegment::evict() {
  Group* group = nullptr;
  {
    MutexLock lock(mutex_);
    if (stopping()) return false;
    const Results::Undelivered last = results_->last_undelivered(consumer_waits_);
    if (last.group == nullptr) return false;
    group = last.group;
    group->drop_results(last.kept);
    group->redone = last.kept;
    if (std::exchange(group->starved, true)) return true;  // it already waits in line
    group->done = false;
    group->context.reset();
    ++starved_;
    ++in_flight_;
  }
  wait_in_line(*group);
  return true;
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
