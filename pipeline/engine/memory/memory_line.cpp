#include "pipeline/engine/memory/memory_line.h"

#include <algorithm>
#include <utility>

#include "pipeline/engine/segment/parallel_segment.h"

namespace penstock {

// Until the serving thread rests, it is at work, also before it has a CPU.
void MemoryLine::add(ParallelSegment& segment, Group& group) {
  MutexLock lock(mutex_);
  entries_.reserve(entries_.size() + 2);  // including one that is taken out and put back
  if (!serving_) {
    run_.activity.began();
    try {
      // Under the lock: no thread may rely on a serving thread before it is certain that there is
      // one.
      run_.executors.enqueue([this] { serve(); });
    } catch (...) {
      run_.activity.not_begun();
      throw;
    }
  }
  serving_ = true;
  entries_.push_back({&segment, &group});
}

// Serves one group and hands the rest to another task, since other work may wait for this thread.
void MemoryLine::serve() noexcept {
  const AtWork at_work(run_.activity);
  run_.activity.ended();  // `add` has counted it
  while (serve_one()) {
    run_.activity.began();
    try {
      run_.executors.enqueue([this] { serve(); });
      return;
    } catch (...) {
      run_.activity.not_begun();  // no memory to hand it over
    }
  }
}

bool MemoryLine::serve_one() {
  const std::uint64_t seen = run_.memory.releases();
  std::optional<Entry> entry = take(seen);
  if (!entry) {
    const Resting resting(run_.memory.release_events(), seen);
    run_.memory.wait_for_release(seen);
    return true;
  }
  const bool done = redo(*entry);
  MutexLock lock(mutex_);
  if (!done) entries_.push_back(*entry);
  serving_ = !entries_.empty();
  return serving_;
}

bool MemoryLine::redo(Entry& entry) {
  Memory::Attempt attempt(run_.memory);
  const bool done = entry.segment->redo(*entry.group, std::exchange(entry.last_try, false));
  if (done) attempt.succeeded();
  entry.tried = attempt.seen();
  if (done) {
    run_.activity.advanced();
    entry.segment->finish(*entry.group);
  }
  return done;
}

// Takes the first group that is needed. If none is, and no thread waits, takes the oldest group of
// the first one's segment: such a group must not take memory that others need.
std::optional<MemoryLine::Entry> MemoryLine::take(std::uint64_t seen) {
  MutexLock lock(mutex_);
  bool others_need = waiter(Otherwise::fail) != nullptr;
  auto chosen = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end() && chosen == entries_.end(); ++each) {
    if (!each->segment->needs(*each->group)) continue;
    others_need = true;
    if (each->tried != seen) chosen = each;
  }
  for (auto each = entries_.begin(); each != entries_.end() && !others_need; ++each) {
    if (each->tried == seen) continue;
    if (chosen == entries_.end() ||
        (each->segment == chosen->segment && each->group->first < chosen->group->first)) {
      chosen = each;
    }
  }
  if (chosen == entries_.end()) return std::nullopt;
  const Entry entry = *chosen;
  entries_.erase(chosen);
  return entry;
}

bool MemoryLine::wait(std::uint64_t seen, Otherwise otherwise) {
  Waiter self{.otherwise = otherwise};
  {
    MutexLock lock(mutex_);
    self.next = std::exchange(waiters_, &self);
  }
  {
    const Resting resting(run_.memory.release_events(), seen);
    run_.memory.wait_for_release(seen);
  }
  MutexLock lock(mutex_);
  Waiter** link = &waiters_;
  while (*link != &self) link = &(*link)->next;
  *link = self.next;
  return !self.over;
}

MemoryLine::Entry* MemoryLine::needed() {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.segment->needs(*entry.group);
  });
  return found != entries_.end() ? &*found : nullptr;
}

MemoryLine::Waiter* MemoryLine::waiter(Otherwise otherwise) {
  for (Waiter* each = waiters_; each != nullptr; each = each->next)
    if (each->otherwise == otherwise) return each;
  return nullptr;
}

// Says whose turn it is. One that can continue without memory comes first.
MemoryLine::Turn MemoryLine::next_turn() {
  const std::uint64_t now = run_.memory.releases();
  MutexLock lock(mutex_);
  if (Waiter* const first = waiter(Otherwise::do_without)) {
    first->over = true;
    return Turn::someone;
  }
  bool any = false;
  for (const Entry& entry : entries_) {
    if (!entry.segment->needs(*entry.group)) continue;
    if (entry.tried != now) return Turn::someone;  // it is needed only since the last release
    any = true;
  }
  if (any || waiter(Otherwise::fail) != nullptr) return Turn::group_or_thread;
  const bool scarce = !entries_.empty();
  lock.unlock();
  return slot_turn(scarce);
}

MemoryLine::Turn MemoryLine::slot_turn(bool scarce) {
  constexpr std::chrono::seconds kPatience(2);
  const std::optional<std::size_t> made = run_.segments.slots_where_one_lacks();
  if (!made) return Turn::nobody;
  if (scarce || *made == 0) return Turn::slot;
  const auto now = std::chrono::steady_clock::now();
  const std::uint64_t advances = run_.activity.advances();
  if (advances != std::exchange(advances_, advances)) lacks_slot_since_ = now;
  return now - lacks_slot_since_ < kPatience ? Turn::nobody : Turn::slot;
}

// The oldest element of a segment fails before a thread that makes elements ahead.
void MemoryLine::fail_one() {
  MutexLock lock(mutex_);
  if (Entry* const entry = needed()) {
    entry->last_try = true;
    entry->tried.reset();
  } else if (Waiter* const first = waiter(Otherwise::fail)) {
    first->over = true;
  }
}

void MemoryLine::resolve() noexcept {
  MutexLock resolving(resolving_);
  if (!run_.activity.quiet()) return;  // another thread has resolved it
  const Turn turn = next_turn();
  if (turn == Turn::nobody) return;
  if (turn != Turn::someone && !run_.slots.drop_free(1)) {
    if (run_.step_back.ask()) return;
    if (turn == Turn::slot) {
      // Quiet still: what came back since is under way to the one that lacks a slot.
      const bool for_good = !run_.activity.caller_may_return();
      if (for_good && !run_.activity.quiet()) return;
      run_.segments.fail_slot(for_good);
    } else {
      fail_one();
    }
  }
  run_.memory.wake();
  if (turn == Turn::slot) run_.waker.notify();
}

}  // namespace penstock
