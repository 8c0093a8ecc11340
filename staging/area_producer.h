// The producer's side of a staging area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/area_watch.h"
#include "staging/flight_queue.h"
#include "staging/layout.h"

namespace penstock {

/// Puts batches into slots, in the order of the calls. Thread-safe.
class AreaProducer {
 public:
  /// Copies on `copy`. The arguments must outlive this object; the watch's lock guards `queue`.
  AreaProducer(AreaWatch& watch, FlightQueue& queue, const BatchLayout& layout, const Stream& copy,
               std::size_t slot_bytes)
      : watch_(watch),
        queue_(queue),
        layout_(layout),
        copy_(copy),
        slot_bytes_(slot_bytes),
        in_place_(watch.device()->unified()) {}

  /// Waits for a free flight. Throws if the area is over.
  Flight& reserve() EXCLUDES(watch_.mutex);
  void give_back(Flight& flight) noexcept EXCLUDES(watch_.mutex);
  /// Copies a batch to the device, as soon as there is a slot. Clears `flight` once the queue holds
  /// it. REQUIRES: the pieces fit the layout.
  void put(Flight*& flight, std::span<Piece> pieces, std::int64_t padded_rows)
      EXCLUDES(watch_.mutex);
  /// Puts an event in the place of a batch.
  void stand_in(FlightQueue::Entry entry) EXCLUDES(watch_.mutex);

 private:
  StagingSlot& claim(Flight& flight) EXCLUDES(watch_.mutex);
  void open(StagingSlot& slot);
  void fill(Flight& flight, StagingSlot& slot, std::int64_t padded_rows);
  void copy_rows(Flight& flight, StagingSlot& slot, std::size_t part, std::int64_t all_rows);
  void pack_text(Flight& flight, StagingSlot& slot, std::size_t part);

  AreaWatch& watch_;
  FlightQueue& queue_ GUARDED_BY(watch_.mutex);
  const BatchLayout& layout_;
  const Stream& copy_;
  const std::size_t slot_bytes_;
  const bool in_place_;  // batches need no copy
};

}  // namespace penstock
