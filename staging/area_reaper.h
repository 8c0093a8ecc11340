// The thread of a staging area that waits for the device.
#pragma once

#include <optional>
#include <vector>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/area_watch.h"
#include "staging/flight_queue.h"

namespace penstock {

/// Learns from events how far the device is. Returns memory of copied batches to the host's
/// pipeline, and slots to the pool. Tells an observer of each batch that was used.
class AreaReaper {
 public:
  /// The arguments must outlive this object; the watch's lock guards `queue`.
  AreaReaper(AreaWatch& watch, FlightQueue& queue)
      : watch_(watch), queue_(queue), in_place_(watch.device()->unified()) {}

  /// Runs until the area is closed and the device has done its work, or has failed.
  void run() noexcept EXCLUDES(watch_.mutex);
  void observe(BatchObserver* observer) EXCLUDES(watch_.mutex);
  /// True if this thread returns memory now.
  bool returns_memory() EXCLUDES(watch_.mutex);

 private:
  void run_until_over() EXCLUDES(watch_.mutex);
  /// Collects the events to wait for next. False if there are none and the area is closed.
  bool collect(std::vector<EventView>& events) REQUIRES(watch_.mutex);
  void hand_over(const std::vector<Piece>& pieces);
  static void note_end(Flight& flight);
  bool advance(Flight& flight, std::vector<Piece>& dropped, std::optional<BatchTimes>& used)
      REQUIRES(watch_.mutex);

  AreaWatch& watch_;
  FlightQueue& queue_ GUARDED_BY(watch_.mutex);
  const bool in_place_;  // batches need no copy
  BatchObserver* observer_ GUARDED_BY(watch_.mutex) = nullptr;
  bool dropping_ GUARDED_BY(watch_.mutex) = false;
};

}  // namespace penstock
