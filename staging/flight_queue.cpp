#include "staging/flight_queue.h"

#include <algorithm>
#include <utility>

namespace penstock {

FlightQueue::FlightQueue(StagingPool& pool, const DevicePtr& device, int slots, int flights,
                         std::size_t tensors)
    : pool_(pool), member_{.most = slots} {
  for (int i = 0; i < flights; ++i) {
    flights_.push_back(std::make_unique<Flight>(device));
    flights_.back()->tensors.resize(tensors);
  }
  for (const auto& flight : flights_) free_.push_back(flight.get());
}

void FlightQueue::leave() {
  for (const auto& flight : flights_) give_slot(*flight);
  pool_.leave(member_);
}

Flight* FlightQueue::reserve() noexcept {
  if (free_.empty()) return nullptr;
  Flight* const flight = free_.back();
  free_.pop_back();
  return flight;
}

void FlightQueue::recycle(Flight& flight) {
  flight.staged = flight.copied = flight.has_pass = false;
  flight.released = flight.told = false;
  flight.ends = 0;
  flight.holds = 0;
  flight.slot = nullptr;
  flight.error = Status();
  flight.times = {};
  free_.push_back(&flight);
}

bool FlightQueue::claim(Flight& flight) {
  bool at_end = false;
  for (std::size_t i = 0; i < queue_.size(); ++i)
    at_end = at_end || queue_[i].kind == Entry::Kind::end;
  flight.slot = pool_.take(member_, at_end);
  if (flight.slot == nullptr) return false;
  flight.has_slot = true;
  try {
    queue_.push_back({.flight = &flight});
  } catch (...) {
    give_slot(flight);
    throw;
  }
  flight.times.sequence = claimed_++;
  return true;
}

void FlightQueue::give_slot(Flight& flight) {
  if (std::exchange(flight.has_slot, false)) pool_.give_back(member_, *flight.slot);
}

bool FlightQueue::ask_for_slots(bool asked) {
  if (!pool_.shared()) return false;
  pool_.ask(asked ? &member_ : nullptr);
  return true;
}

Flight* FlightQueue::staged(std::size_t i) noexcept {
  std::size_t place = 0;
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    Flight* const flight = queue_[k].flight;
    if (queue_[k].kind != Entry::Kind::batch || !flight->error.ok()) continue;
    if (place++ == i) return flight->staged ? flight : nullptr;
  }
  return nullptr;
}

std::size_t FlightQueue::staged() const noexcept {
  std::size_t count = 0;
  for (std::size_t k = 0; k < queue_.size(); ++k) {
    const Flight* const flight = queue_[k].flight;
    const bool batch = queue_[k].kind == Entry::Kind::batch;
    count += batch && flight->staged && flight->error.ok() ? 1 : 0;
  }
  return count;
}

int FlightQueue::held() const noexcept {
  return static_cast<int>(std::count_if(flights_.begin(), flights_.end(),
                                        [](const auto& flight) { return flight->holds > 0; }));
}

// Only work that the device was asked to do can hang. A slow producer, or a consumer that keeps its
// batch, does not.
std::string FlightQueue::what_hangs(std::int64_t before, const std::string& device,
                                    const std::string& copy) const {
  std::string hangs;
  for (const auto& flight : flights_) {
    if (!flight->staged || flight->slot == nullptr) continue;
    const std::string where =
        "slot " + std::to_string(flight->slot->index) + " of " + device + " on stream ";
    // Only a copy that has begun. Others may wait for it, or for work that still uses the slot.
    if (!flight->copied && flight->times.put <= before && flight->begin.view().done())
      return "the copy into " + where + copy;
    if (flight->copied && flight->released && flight->times.ended <= before)
      hangs = "work on " + where + flight->last_stream;
  }
  return hangs;
}

}  // namespace penstock
