#include "pipeline/engine/starved.h"

#include <algorithm>

#include "pipeline/engine/edge.h"

namespace penstock {

using Clock = std::chrono::steady_clock;

bool Patience::over(const Run& run) {
  const std::uint64_t groups = run.groups.load(std::memory_order_acquire);
  if (!run.quiet() || groups != std::exchange(groups_, groups)) {
    renew();
    return false;
  }
  if (quiet_since_ == Clock::time_point()) quiet_since_ = Clock::now();
  return Clock::now() - quiet_since_ > limit_;
}

void StarvedLine::add(Edge& edge, Group& group) {
  MutexLock lock(mutex_);
  entries_.reserve(entries_.size() + 2);  // with one that is taken out and put back
  // Under the lock: nobody may count on one who serves before it is sure that there is one.
  if (!serving_) run_.submit([this] { serve(); }, true);
  serving_ = true;
  entries_.push_back({&edge, &group});
}

// The first that is needed, else the oldest of the edge of the first.
StarvedLine::Entry StarvedLine::take() {
  MutexLock lock(mutex_);
  auto chosen = std::find_if(entries_.begin(), entries_.end(),
                             [](const Entry& entry) { return entry.edge->needs(*entry.group); });
  const bool needed = chosen != entries_.end();
  if (!needed) {
    const Edge* const edge = entries_.front().edge;
    chosen =
        std::min_element(entries_.begin(), entries_.end(), [edge](const Entry& a, const Entry& b) {
          if (a.edge != edge || b.edge != edge) return a.edge == edge;
          return a.group->first < b.group->first;
        });
  }
  Entry entry = *chosen;
  entry.needed = needed;
  entries_.erase(chosen);
  return entry;
}

// On a thread that others may be waiting for: so it is not kept.
void StarvedLine::serve() noexcept {
  while (serve_one()) {
    try {
      run_.submit([this] { serve(); }, true);
      return;
    } catch (...) {
      continue;  // no memory to hand it over
    }
  }
}

bool StarvedLine::redo(const Entry& entry, bool last_try) {
  const AtWork at_work(run_);
  return entry.edge->redo(*entry.group, last_try);
}

bool StarvedLine::serve_one() {
  const Entry entry = take();
  const bool quiet = patience_.over(run_);
  // What is not needed yet must not take what somebody waits for.
  const bool may_try = entry.needed || run_.memory_waiters.load(std::memory_order_acquire) == 0;
  bool done = may_try && redo(entry, false);
  if (!done && may_try && give_up(entry, quiet)) {
    done = redo(entry, true);
    patience_.renew();
  }
  if (done) {
    patience_.renew();
    tries_ = 0;
    entry.edge->finish(*entry.group);
  } else {
    const std::uint64_t seen = run_.memory().releases();
    {
      MutexLock lock(mutex_);
      entries_.push_back(entry);
    }
    run_.memory().wait_for_release(seen, 10);
  }
  MutexLock lock(mutex_);
  serving_ = !entries_.empty();
  return serving_;
}

// After a try in vain. True if the element must fail: nothing else was at work, before and after.
bool StarvedLine::give_up(const Entry& entry, bool was_quiet) {
  if (!entry.needed || !entry.edge->needs(*entry.group) || !run_.quiet()) return false;
  if (run_.evict()) {
    patience_.renew();
    return false;
  }
  if (!was_quiet || !patience_.over(run_)) {
    tries_ = 0;
    return false;
  }
  std::size_t others = 0;
  {
    MutexLock lock(mutex_);
    others = static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(),
                      [](const Entry& other) { return other.edge->needs(*other.group); }));
  }
  if (++tries_ <= others) return false;  // one of them may have room, and then give some back
  tries_ = 0;
  patience_.renew();
  return !run_.step_back(entry.group->starved_codecs);
}

bool Run::step_back(std::uint64_t bytes) noexcept {
  if (bytes == 0 || !may_step_back_ || cancelled()) return false;
  if (!steps_back_.load(std::memory_order_acquire)) {
    if (!memory_->keep_for_codecs(bytes)) return false;
    steps_back_.store(true, std::memory_order_release);
  }
  wake_pulls();
  return true;
}

void Run::stepped_back() noexcept {
  ledger_.step_back();
  {
    MutexLock lock(mutex_);
    for (const auto& [place, pool] : pools_) pool->drop_free();
  }
  steps_back_.store(false, std::memory_order_release);
}

}  // namespace penstock
