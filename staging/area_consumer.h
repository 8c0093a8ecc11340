// The consumer's side of a staging area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/area_watch.h"
#include "staging/flight_queue.h"

namespace penstock {

/// Takes batches in their order, and releases their slots. Thread-safe.
class AreaConsumer {
 public:
  /// Closes released slots on `guard`, if there is one. The arguments must outlive this object; the
  /// watch's lock guards `queue`.
  AreaConsumer(AreaWatch& watch, FlightQueue& queue, const std::optional<Stream>& guard,
               std::size_t slot_bytes)
      : watch_(watch),
        queue_(queue),
        guard_(guard),
        slot_bytes_(slot_bytes),
        in_place_(watch.device()->unified()) {}

  /// The next entry in the order: a batch, an error in its place, or an end.
  struct Taken {
    Flight* flight = nullptr;
    Status error{};
    bool over = false;  ///< nothing ever follows
    bool late = false;  ///< there was no entry in time
  };
  /// Waits for the next entry, which was asked for at `asked`, until a deadline. Throws an error
  /// that has no place in the order; the next entry is then still to come.
  Taken next(std::int64_t asked, std::int64_t until) EXCLUDES(watch_.mutex);
  /// Waits for the i-th batch from here, and holds it, too.
  Flight& peek(std::size_t i) EXCLUDES(watch_.mutex);
  /// Drops batches that were not taken yet.
  void clear() EXCLUDES(watch_.mutex);
  void wait(Flight& flight, const StreamView& stream, const Site& site) EXCLUDES(watch_.mutex);
  /// Waits until the copy of a leased batch has ended. Throws if something hangs or has failed.
  void await_copy(const Flight& flight) EXCLUDES(watch_.mutex);
  void release(Flight& flight, std::span<const StreamView> streams, const Site& site) noexcept
      EXCLUDES(watch_.mutex);
  /// True if memory of batches on the host will return. Either the device works with it, or a
  /// consumer holds it that does not wait for a batch, and has moved within the watchdog's time.
  bool returns_memory() EXCLUDES(watch_.mutex);
  /// True if a batch here takes memory of the host.
  bool has_memory() const EXCLUDES(watch_.mutex);

 private:
  void ask_for_slots(bool asked) REQUIRES(watch_.mutex);
  /// Throws if all slots are held, and `next` has waited for the watchdog's time in which no lease
  /// was taken or released.
  void refuse_if_all_are_held(std::int64_t asked) REQUIRES(watch_.mutex);
  Flight& lease(Flight& flight) REQUIRES(watch_.mutex);
  void recycle(Flight& flight) REQUIRES(watch_.mutex);
  void drop_hold(Flight& flight) REQUIRES(watch_.mutex);

  AreaWatch& watch_;
  FlightQueue& queue_ GUARDED_BY(watch_.mutex);
  const std::optional<Stream>& guard_;
  const std::size_t slot_bytes_;
  const bool in_place_;                                       // batches need no copy
  int waiting_ GUARDED_BY(watch_.mutex) = 0;                  // threads in `next`
  std::int64_t leases_changed_ GUARDED_BY(watch_.mutex) = 0;  // when one was last taken or released
};

}  // namespace penstock
