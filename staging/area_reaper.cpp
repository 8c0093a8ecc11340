#include "staging/area_reaper.h"

#include <algorithm>
#include <utility>

#include "staging/range.h"

namespace penstock {

void AreaReaper::observe(BatchObserver* observer) {
  MutexLock lock(watch_.mutex);
  observer_ = observer;
}

bool AreaReaper::returns_memory() {
  MutexLock lock(watch_.mutex);
  return dropping_;
}

bool AreaReaper::collect(std::vector<EventView>& events) {
  events.clear();
  for (const auto& flight : queue_.flights()) {
    if (!flight->staged) continue;
    if (!flight->copied) {
      events.push_back(flight->ready);
    } else if (flight->released) {
      // Waits for the first event that is not done. If all are done, takes one of them, so the wait
      // ends.
      std::size_t i = 0;
      while (i + 1 < flight->ends && flight->ended[i].view().done()) ++i;
      if (i < flight->ends) events.push_back(flight->ended[i].view());
    }
  }
  return !(watch_.closed() && events.empty()) && watch_.failed().ok();
}

// Components may be in different buffers.
void AreaReaper::hand_over(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (std::size_t c = 0; c < piece.batch.size(); ++c)
      watch_.backend().hand_over(memory_of(piece.batch[c]));
  }
}

// Notes when the device was done with a batch.
void AreaReaper::note_end(Flight& flight) {
  BatchTimes& times = flight.times;
  if (flight.ends > 0) times.ended = 0;
  for (std::size_t i = 0; i < flight.ends; ++i)
    times.ended = std::max(times.ended, flight.ended[i].passed_ns(times.released));
  times.stepped = flight.ends > 0 ? flight.ended[0].passed_ns(times.released) : times.ended;
  times.passed =
      flight.has_pass ? flight.passed.view().completed_ns() : std::max(times.asked, times.ready);
}

// True if something changed. `dropped` then receives the pieces that may be released, and `used`
// the times of a batch that has been used.
bool AreaReaper::advance(Flight& flight, std::vector<Piece>& dropped,
                         std::optional<BatchTimes>& used) {
  if (!flight.staged) return false;
  if (!flight.copied) {
    if (!flight.ready.view().done()) return false;
    flight.copied = true;
    flight.times.copy_begin = flight.begin.view().completed_ns();
    flight.times.ready = flight.ready.view().completed_ns();
    if (flight.slot->packed != nullptr) watch_.backend().hand_over(flight.slot->packed);
    if (!in_place_) {
      hand_over(flight.pieces);
      std::swap(dropped, flight.pieces);
      if (flight.released) queue_.give_slot(flight);
    }
    watch_.changed();
    return true;
  }
  if (!flight.released) return false;
  for (std::size_t i = 0; i < flight.ends; ++i) {
    if (!flight.ended[i].view().done()) return false;
  }
  if (!std::exchange(flight.told, true)) {
    note_end(flight);
    if (observer_ != nullptr && flight.times.asked >= 0) {
      used = flight.times;
      return true;
    }
  }
  if (in_place_) {
    hand_over(flight.pieces);
    std::swap(dropped, flight.pieces);
    queue_.give_slot(flight);
  }
  queue_.recycle(flight);
  watch_.changed();
  return true;
}

void AreaReaper::run_until_over() {
  std::vector<EventView> events;
  std::vector<Piece> dropped;
  std::vector<Flight*> order;
  {
    MutexLock lock(watch_.mutex);
    for (const auto& flight : queue_.flights()) order.push_back(flight.get());
  }
  events.reserve(order.size());
  for (;;) {
    {
      MutexLock lock(watch_.mutex);
      if (!collect(events)) break;
    }
    {
      const Range range(watch_.backend(), "penstock: wait for the device");
      watch_.backend().wait_any(events, watch_.kick());
    }
    const Status status = watch_.device()->status();
    if (!status.ok()) {
      MutexLock lock(watch_.mutex);
      const bool lost = status.error().code() == ErrorCode::device_lost;
      if (lost) {
        watch_.fail(status);
        break;
      }
      watch_.set_pending(status);
      watch_.changed();
    }
    // The oldest batch first, so that the observer gets them in order.
    {
      MutexLock lock(watch_.mutex);
      std::sort(order.begin(), order.end(), [](const Flight* a, const Flight* b) {
        return a->times.sequence < b->times.sequence;
      });
    }
    for (Flight* flight : order) {
      bool more = true;
      while (more) {
        BatchObserver* observer = nullptr;
        std::optional<BatchTimes> used;
        {
          MutexLock lock(watch_.mutex);
          more = advance(*flight, dropped, used);
          dropping_ = !dropped.empty();
          observer = observer_;
        }
        // Without the lock: the observer computes, and pieces return slots to the engine.
        if (used) observer->finished(*used);
        if (dropped.empty()) continue;
        dropped.clear();
        MutexLock lock(watch_.mutex);
        dropping_ = false;
      }
    }
  }
}

void AreaReaper::run() noexcept {
  try {
    run_until_over();
  } catch (...) {
    const Status error = status_from_current_exception();
    MutexLock lock(watch_.mutex);
    watch_.fail(error);
  }
  BatchObserver* observer = nullptr;
  Status error;
  {
    MutexLock lock(watch_.mutex);
    observer = observer_;
    error = watch_.failed();
  }
  if (observer != nullptr && !error.ok()) observer->failed(error);
}

}  // namespace penstock
