// The only thread of a staging area that waits for the device.
#include <algorithm>

#include "staging/area.h"
#include "staging/range.h"

namespace penstock {

bool StagingState::collect(std::vector<EventView>& events) {
  events.clear();
  for (const auto& flight : flights_) {
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
  return !(closed_ && events.empty()) && failed_.ok();
}

// Components may be in different buffers.
void StagingState::hand_over(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (std::size_t c = 0; c < piece.batch.size(); ++c)
      backend_.hand_over(memory_of(piece.batch[c]));
  }
}

// True if something changed. `dropped` then receives the pieces that may be released.
bool StagingState::advance(Flight& flight, std::vector<Piece>& dropped) {
  if (!flight.staged) return false;
  if (!flight.copied) {
    if (!flight.ready.view().done()) return false;
    flight.copied = true;
    flight.times.copy_begin = flight.begin.view().completed_ns();
    flight.times.ready = flight.ready.view().completed_ns();
    if (flight.slot->packed != nullptr) backend_.hand_over(flight.slot->packed);
    if (!in_place_) {
      hand_over(flight.pieces);
      std::swap(dropped, flight.pieces);
      if (flight.released) give_slot(flight);
    }
    changed();
    return true;
  }
  if (!flight.released) return false;
  for (std::size_t i = 0; i < flight.ends; ++i) {
    if (!flight.ended[i].view().done()) return false;
  }
  if (flight.ends > 0) flight.times.ended = 0;
  for (std::size_t i = 0; i < flight.ends; ++i) {
    flight.times.ended =
        std::max(flight.times.ended, flight.ended[i].passed_ns(flight.times.released));
  }
  flight.times.stepped =
      flight.ends > 0 ? flight.ended[0].passed_ns(flight.times.released) : flight.times.ended;
  flight.times.passed = flight.has_pass ? flight.passed.view().completed_ns()
                                        : std::max(flight.times.asked, flight.times.ready);
  if (observer_ != nullptr && flight.times.asked >= 0) observer_->finished(flight.times);
  if (in_place_) {
    hand_over(flight.pieces);
    std::swap(dropped, flight.pieces);
    give_slot(flight);
  }
  recycle(flight);
  return true;
}

void StagingState::reap_until_over() {
  std::vector<EventView> events;
  std::vector<Piece> dropped;
  std::vector<Flight*> order;
  events.reserve(flights_.size());
  for (const auto& flight : flights_) order.push_back(flight.get());
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!collect(events)) break;
    }
    {
      const Range range(backend_, "penstock: wait for the device");
      backend_.wait_any(events, kick_);
    }
    const Status status = device_->status();
    if (!status.ok()) {
      MutexLock lock(mutex_);
      const bool lost = status.error().code() == ErrorCode::device_lost;
      (lost ? failed_ : pending_) = status;
      changed();
      if (lost) break;
    }
    // The oldest batch first, so that the observer gets them in order.
    {
      MutexLock lock(mutex_);
      std::sort(order.begin(), order.end(), [](const Flight* a, const Flight* b) {
        return a->times.sequence < b->times.sequence;
      });
    }
    for (Flight* flight : order) {
      bool more = true;
      while (more) {
        {
          MutexLock lock(mutex_);
          more = advance(*flight, dropped);
          dropping_ = !dropped.empty();
        }
        if (dropped.empty()) continue;
        dropped.clear();  // without the lock, because this returns slots to the engine
        MutexLock lock(mutex_);
        dropping_ = false;
      }
    }
  }
}

void StagingState::reap() noexcept {
  try {
    reap_until_over();
  } catch (...) {
    fail(status_from_current_exception());
  }
  BatchObserver* observer = nullptr;
  Status error;
  {
    MutexLock lock(mutex_);
    observer = observer_;
    error = failed_;
  }
  if (observer != nullptr && !error.ok()) observer->failed(error);
}

}  // namespace penstock
