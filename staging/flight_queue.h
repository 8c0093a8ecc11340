// The batches of a staging area, in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <penstock/device_backend.h>

#include "pipeline/core/ring.h"
#include "staging/flight.h"
#include "staging/staging_pool.h"

namespace penstock {

/// An area's flights, the slots that they have, and the queue between producer and consumer. A
/// state machine: it has no threads, never waits, and asks the device for nothing. Not
/// synchronised.
class FlightQueue {
 public:
  /// An entry of the queue.
  struct Entry {
    enum class Kind { batch, end, error, stop };
    Kind kind = Kind::batch;
    Flight* flight = nullptr;  // an end or error may have one, too: its permit
    Status error{};
  };

  /// Takes up to `slots` of the pool, which must outlive it. `tensors` is the number of components
  /// of a batch.
  FlightQueue(StagingPool& pool, const DevicePtr& device, int slots, int flights,
              std::size_t tensors);
  FlightQueue(const FlightQueue&) = delete;
  FlightQueue& operator=(const FlightQueue&) = delete;

  /// Joins the pool. Call this once, before anything takes a slot.
  void join() { pool_.join(member_); }
  /// Returns all slots, and leaves the pool. Call this last.
  void leave();

  const std::vector<std::unique_ptr<Flight>>& flights() const noexcept { return flights_; }
  int slots() const noexcept { return member_.most; }

  /// Returns a flight for a batch that is to be made; null if none is free.
  Flight* reserve() noexcept;
  /// Makes a flight free.
  void recycle(Flight& flight);
  /// Takes a slot for a flight, and puts the flight at the end of the queue. Returns false if there
  /// is no slot now.
  bool claim(Flight& flight);
  /// Returns the flight's slot to the pool, if it has one.
  void give_slot(Flight& flight);
  /// Tells the pool that this area's consumer asks for a batch, or no longer does. Returns false if
  /// no other area has the pool.
  bool ask_for_slots(bool asked);

  void put(Entry entry) { queue_.push_back(std::move(entry)); }
  bool empty() const noexcept { return queue_.size() == 0; }
  std::size_t size() const noexcept { return queue_.size(); }
  Entry& operator[](std::size_t i) { return queue_[i]; }
  const Entry& operator[](std::size_t i) const { return queue_[i]; }
  Entry take() { return queue_.pop_front(); }
  /// Returns the i-th batch that can be taken; null if there are not so many.
  Flight* staged(std::size_t i) noexcept;
  /// Returns the number of these.
  std::size_t staged() const noexcept;
  /// Returns the number of flights that the queue or the consumer holds.
  int held() const noexcept;
  /// Returns a text about work that was asked for before this time and has begun, but has not
  /// ended; empty if there is none. `copy` is the name of the stream that copies.
  std::string what_hangs(std::int64_t before, const std::string& device,
                         const std::string& copy) const;

 private:
  StagingPool& pool_;
  StagingPool::Member member_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> free_;
  Ring<Entry> queue_;
  std::uint64_t claimed_ = 0;
};

}  // namespace penstock
