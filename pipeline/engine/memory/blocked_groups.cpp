#include "pipeline/engine/memory/blocked_groups.h"

#include <algorithm>

#include "pipeline/engine/segment/parallel_segment.h"

namespace penstock {

void BlockedGroups::add(ParallelSegment& segment, Group& group) {
  MutexLock lock(mutex_);
  entries_.reserve(entries_.size() + 2);  // including one that is taken out and put back
  // Under the lock: no thread may rely on a serving thread before it is certain that there is one.
  if (!serving_) run_.executors.enqueue([this] { serve(); });
  serving_ = true;
  entries_.push_back({&segment, &group});
}

// Takes the first group that is needed, otherwise the oldest group of the first one's segment.
BlockedGroups::Entry BlockedGroups::take() {
  MutexLock lock(mutex_);
  auto chosen = std::find_if(entries_.begin(), entries_.end(),
                             [](const Entry& entry) { return entry.segment->needs(*entry.group); });
  const bool needed = chosen != entries_.end();
  if (!needed) {
    const ParallelSegment* const segment = entries_.front().segment;
    chosen = std::min_element(entries_.begin(), entries_.end(),
                              [segment](const Entry& a, const Entry& b) {
                                if (a.segment != segment || b.segment != segment)
                                  return a.segment == segment;
                                return a.group->first < b.group->first;
                              });
  }
  Entry entry = *chosen;
  entry.needed = needed;
  entries_.erase(chosen);
  return entry;
}

// Serves one group and hands the rest to another task, since other work may wait for this thread.
void BlockedGroups::serve() noexcept {
  while (serve_one()) {
    try {
      run_.executors.submit([this] { serve(); }, true);
      return;
    } catch (...) {
      continue;  // no memory to hand it over
    }
  }
}

bool BlockedGroups::redo(const Entry& entry, bool last_try) {
  const AtWork at_work(run_.activity);
  return entry.segment->redo(*entry.group, last_try);
}

bool BlockedGroups::serve_one() {
  const Entry entry = take();
  const bool seemed_quiet = timer_.seems_over(run_.activity);
  const bool quiet = timer_.over(run_.activity);
  // A group that is not needed yet must not take memory that another thread waits for.
  const bool may_try = entry.needed || run_.activity.memory_waiters() == 0;
  bool done = may_try && redo(entry, false);
  if (!done && may_try && give_up(entry, seemed_quiet, quiet)) {
    done = redo(entry, true);
    timer_.renew();
  }
  if (done) {
    timer_.renew();
    tries_ = 0;
    entry.segment->finish(*entry.group);
  } else {
    const std::uint64_t seen = run_.memory.releases();
    {
      MutexLock lock(mutex_);
      entries_.push_back(entry);
    }
    run_.memory.wait_for_release(seen, run_.activity.moment_ms());
  }
  MutexLock lock(mutex_);
  serving_ = !entries_.empty();
  return serving_;
}

// Called after a failed try. True if the element must fail: no other work was running, before and
// after.
bool BlockedGroups::give_up(const Entry& entry, bool seemed_quiet, bool was_quiet) {
  if (!entry.needed || !entry.segment->needs(*entry.group) || !run_.activity.quiet()) return false;
  if (run_.segments.evict()) {
    timer_.renew();
    return false;
  }
  if (!seemed_quiet || !timer_.seems_over(run_.activity)) {
    tries_ = 0;
    return false;
  }
  std::size_t others = 0;
  {
    MutexLock lock(mutex_);
    others = static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(),
                      [](const Entry& other) { return other.segment->needs(*other.group); }));
  }
  if (++tries_ <= others) return false;  // one of the others may have room, and then return some
  tries_ = 0;
  if (run_.slots.drop_free(1) || run_.step_back.ask(entry.group->blocked_total)) {
    timer_.renew();
    return false;
  }
  return was_quiet && timer_.over(run_.activity) && run_.step_back.may_fail();
}

}  // namespace penstock
