#include "staging/area_consumer.h"

#include <algorithm>
#include <utility>

#include "staging/range.h"
#include "staging/shared_stream.h"

namespace penstock {
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

void AreaConsumer::ask_for_slots(bool asked) {
  if (queue_.ask_for_slots(asked)) watch_.changed();
}

// Leases move between threads unseen. So only the time shows that the thread that waits here holds
// them.
void AreaConsumer::refuse_if_all_are_held(std::int64_t asked) {
  if (queue_.held() < queue_.slots()) return;
  if (watch_.now() - std::max(asked, leases_changed_) < watch_.watchdog_ns()) return;
  watch_.find_what_hangs();  // they may be held because of that
  if (!watch_.failed().ok()) return;
  throw Error(ErrorCode::no_progress,
              watch_.device()->id().to_string() + ": all " + std::to_string(queue_.slots()) +
                  " slots are held, and none was released for " + watch_.watchdog_text() +
                  "; release a batch before asking for the next");
}

bool AreaConsumer::returns_memory() {
  MutexLock lock(watch_.mutex);
  const bool moves = waiting_ == 0;
  const std::int64_t since = watch_.now() - watch_.watchdog_ns();
  for (const auto& flight : queue_.flights()) {
    if (flight->has_slot && !flight->staged) return true;  // is being filled
    if (!flight->staged || (flight->copied && !in_place_)) continue;
    if (!flight->copied || flight->released) return true;
    if (moves && std::max(flight->times.staged, leases_changed_) > since) return true;
  }
  return false;
}

bool AreaConsumer::has_memory() const {
  MutexLock lock(watch_.mutex);
  return std::ranges::any_of(queue_.flights(), [this](const auto& flight) {
    return flight->staged ? !flight->copied || in_place_ : flight->has_slot;
  });
}

Flight& AreaConsumer::lease(Flight& flight) {
  leases_changed_ = watch_.now();
  return flight;
}

AreaConsumer::Taken AreaConsumer::next(std::int64_t asked, std::int64_t until) {
  using Kind = FlightQueue::Entry::Kind;
  const Range range(watch_.backend(), "penstock: wait for a batch");
  MutexLock lock(watch_.mutex);
  ask_for_slots(true);
  const Waiting waiting(waiting_);
  for (;;) {
    if (!watch_.failed().ok()) return {.error = watch_.failed(), .over = true};
    watch_.throw_if_over();
    watch_.throw_pending();
    if (queue_.empty()) {
      refuse_if_all_are_held(asked);
    } else if (queue_[0].kind == Kind::stop) {
      ask_for_slots(false);
      return {.over = true};
    } else if (queue_[0].kind != Kind::batch) {
      FlightQueue::Entry entry = queue_.take();
      if (entry.flight != nullptr) recycle(*entry.flight);
      if (entry.error.ok()) ask_for_slots(false);
      return {.error = std::move(entry.error)};
    } else if (Flight& flight = *queue_[0].flight; !flight.error.ok()) {
      queue_.take();
      Status error = flight.error;
      recycle(flight);
      return {.error = std::move(error)};
    } else if (flight.staged) {
      queue_.take();
      flight.times.asked = asked;
      return {.flight = &lease(flight)};
    }
    if (watch_.now() >= until) return {.late = true};
    watch_.wait_for_change(asked, until);
  }
}

void AreaConsumer::recycle(Flight& flight) {
  queue_.recycle(flight);
  watch_.changed();
}

Flight& AreaConsumer::peek(std::size_t i) {
  MutexLock lock(watch_.mutex);
  const std::int64_t asked = watch_.now();
  for (;;) {
    watch_.throw_if_over();
    if (Flight* const flight = queue_.staged(i)) {
      ++flight->holds;
      return lease(*flight);
    }
    if (i >= static_cast<std::size_t>(queue_.slots())) {
      throw Error(ErrorCode::invalid_argument, "peek(" + std::to_string(i) + ") into " +
                                                   std::to_string(queue_.slots()) + " slots");
    }
    watch_.wait_for_change(asked);
  }
}

void AreaConsumer::clear() {
  MutexLock lock(watch_.mutex);
  for (std::size_t left = queue_.size(); left > 0; --left) {
    FlightQueue::Entry entry = queue_.take();
    const bool batch = entry.kind == FlightQueue::Entry::Kind::batch;
    if (!batch || (!entry.flight->staged && entry.flight->error.ok())) {
      queue_.put(std::move(entry));  // ends, and batches that are being filled
    } else if (!entry.flight->error.ok()) {
      recycle(*entry.flight);
    } else {
      drop_hold(*entry.flight);
    }
  }
  watch_.changed();
}

void AreaConsumer::await_copy(const Flight& flight) {
  MutexLock lock(watch_.mutex);
  const std::int64_t since = watch_.now();
  while (!flight.copied && !flight.ready.view().done()) {
    if (!watch_.failed().ok()) throw Error(watch_.failed().error());
    watch_.wait_for_change(since);
  }
}

void AreaConsumer::wait(Flight& flight, const StreamView& stream, const Site& site) {
  stream.wait(flight.ready, site);
  {
    MutexLock lock(watch_.mutex);
    if (std::exchange(flight.has_pass, true)) return;
  }
  stream.record(flight.passed, site);
}

void AreaConsumer::release(Flight& flight, std::span<const StreamView> streams,
                           const Site& site) noexcept {
  MutexLock lock(watch_.mutex);
  try {
    StagingSlot& slot = *flight.slot;
    while (slot.released.size() < slot.releases + streams.size())
      slot.released.emplace_back(watch_.device());
    while (flight.ended.size() < flight.ends + streams.size())
      flight.ended.emplace_back(watch_.device());
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
    watch_.fail(status_from_current_exception());
  }
}

void AreaConsumer::drop_hold(Flight& flight) {
  if (--flight.holds > 0) return;
  flight.released = true;
  flight.times.released = flight.times.ended = leases_changed_ = watch_.now();
  if (guard_ && !in_place_) {
    StagingSlot& slot = *flight.slot;
    const StreamView guard = *guard_;
    guard.wait(flight.ready);
    for (std::size_t i = 0; i < slot.releases; ++i) guard.wait(slot.released[i].view());
    watch_.backend().guard({slot.data, slot_bytes_}, false, guard.state());
    guard.record(*slot.closed);
  }
  if (flight.copied && !in_place_) queue_.give_slot(flight);
  watch_.changed();
  watch_.wake_reaper();
}

}  // namespace penstock
