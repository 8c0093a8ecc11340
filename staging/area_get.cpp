// The consumers' side of a staging area.
#include <algorithm>
#include <utility>

#include "staging/area.h"
#include "staging/range.h"

namespace penstock {

// Leases move between threads unseen. So only the time shows that the thread that waits here holds
// them.
void StagingState::refuse_if_all_are_held(std::int64_t asked) {
  const auto held = std::count_if(flights_.begin(), flights_.end(),
                                  [](const auto& flight) { return flight->holds > 0; });
  if (held < slots()) return;
  if (clock_.now() - std::max(asked, leases_changed_) < watchdog_ns_) return;
  find_what_hangs();  // they may be held because of that
  if (!failed_.ok()) return;
  throw Error(ErrorCode::no_progress,
              device_->id().to_string() + ": all " + std::to_string(slots()) +
                  " slots are held, and none was released for " + watchdog_text() +
                  "; release a batch before asking for the next");
}

namespace {

/// A guard: one more waits.
class Waiting {
 public:
  explicit Waiting(int& count) noexcept : count_(++count) {}
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  int& count_;
};

}  // namespace

bool StagingState::returns_memory() {
  MutexLock lock(mutex_);
  if (dropping_) return true;
  const bool moves = waiting_ == 0;
  const std::int64_t since = clock_.now() - watchdog_ns_;
  for (const auto& flight : flights_) {
    if (flight->has_slot && !flight->staged) return true;  // is being filled
    if (!flight->staged || (flight->copied && !in_place_)) continue;
    if (!flight->copied || flight->released) return true;
    if (moves && std::max(flight->times.staged, leases_changed_) > since) return true;
  }
  return false;
}

StagedBatch StagingState::lease(Flight& flight) {
  leases_changed_ = clock_.now();
  return {shared_from_this(), flight};
}

StagingState::Taken StagingState::next(std::int64_t asked, std::int64_t until) {
  const Range range(backend_, "penstock: wait for a batch");
  MutexLock lock(mutex_);
  ask_for_slots(true);
  const Waiting waiting(waiting_);
  for (;;) {
    if (!failed_.ok()) return {.error = failed_, .over = true};
    throw_if_over();
    if (!pending_.ok()) {
      const Status error = std::exchange(pending_, Status());
      throw Error(error.error());
    }
    if (queue_.empty()) {
      refuse_if_all_are_held(asked);
    } else if (queue_.front().kind == Entry::Kind::stop) {
      ask_for_slots(false);
      return {.over = true};
    } else if (queue_.front().kind != Entry::Kind::batch) {
      Entry entry = queue_.pop_front();
      if (entry.flight != nullptr) recycle(*entry.flight);
      if (entry.error.ok()) ask_for_slots(false);
      return {.error = std::move(entry.error)};
    } else if (Flight& flight = *queue_.front().flight; !flight.error.ok()) {
      queue_.pop_front();
      Status error = flight.error;
      recycle(flight);
      return {.error = std::move(error)};
    } else if (flight.staged) {
      queue_.pop_front();
      flight.times.asked = asked;
      return {.batch = lease(flight)};
    }
    if (clock_.now() >= until) return {.late = true};
    wait_for_change(asked, until);
  }
}

StagedBatch StagingState::peek(std::size_t i) {
  MutexLock lock(mutex_);
  const std::int64_t asked = clock_.now();
  for (;;) {
    throw_if_over();
    std::size_t place = 0;
    for (std::size_t k = 0; k < queue_.size(); ++k) {
      Flight* flight = queue_[k].flight;
      if (queue_[k].kind != Entry::Kind::batch || !flight->error.ok()) continue;
      if (place++ != i || !flight->staged) continue;
      ++flight->holds;
      return lease(*flight);
    }
    if (i >= static_cast<std::size_t>(slots())) {
      throw Error(ErrorCode::invalid_argument,
                  "peek(" + std::to_string(i) + ") into " + std::to_string(slots()) + " slots");
    }
    wait_for_change(asked);
  }
}

std::size_t StagingState::size() const {
  MutexLock lock(mutex_);
  std::size_t count = 0;
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    const Flight* flight = queue_[k].flight;
    const bool batch = queue_[k].kind == Entry::Kind::batch;
    count += batch && flight->staged && flight->error.ok() ? 1 : 0;
  }
  return count;
}

void StagingState::clear() {
  MutexLock lock(mutex_);
  for (std::size_t left = queue_.size(); left > 0; --left) {
    Entry entry = queue_.pop_front();
    if (entry.kind != Entry::Kind::batch || (!entry.flight->staged && entry.flight->error.ok())) {
      queue_.push_back(std::move(entry));  // ends, and batches that are being filled
    } else if (!entry.flight->error.ok()) {
      recycle(*entry.flight);
    } else {
      drop_hold(*entry.flight);
    }
  }
  changed();
}

void StagingState::wait(Flight& flight, const StreamView& stream, const Site& site) {
  stream.wait(flight.ready, site);
  {
    MutexLock lock(mutex_);
    if (std::exchange(flight.has_pass, true)) return;
  }
  stream.record(flight.passed, site);
}

void StagingState::release(Flight& flight, std::span<const StreamView> streams,
                           const Site& site) noexcept {
  MutexLock lock(mutex_);
  try {
    StagingSlot& slot = *flight.slot;
    while (slot.released.size() < slot.releases + streams.size())
      slot.released.emplace_back(device_);
    while (flight.ended.size() < flight.ends + streams.size()) flight.ended.emplace_back(device_);
    for (const StreamView& stream : streams) {
      ReleasePoint& released = slot.released[slot.releases++];
      ReleasePoint& ended = flight.ended[flight.ends++];
      released.end = ended.end =
          SharedStream::of(stream).record_or_end(released.recorded, ended.recorded, site);
      flight.last_stream = stream.name();
    }
    drop_hold(flight);
  } catch (...) {
    // A slot whose release can't be recorded never becomes free again.
    if (failed_.ok()) failed_ = status_from_current_exception();
    changed();
  }
}

void StagingState::drop_hold(Flight& flight) {
  if (--flight.holds > 0) return;
  flight.released = true;
  flight.times.released = flight.times.ended = leases_changed_ = clock_.now();
  if (guard_ && !in_place_) {
    StagingSlot& slot = *flight.slot;
    const StreamView guard = *guard_;
    guard.wait(flight.ready);
    for (std::size_t i = 0; i < slot.releases; ++i) guard.wait(slot.released[i].view());
    backend_.guard({slot.data, pool_->bytes()}, false, guard.state());
    guard.record(*slot.closed);
  }
  if (flight.copied && !in_place_) give_slot(flight);
  changed();
  backend_.kick(kick_);
}

}  // namespace penstock
