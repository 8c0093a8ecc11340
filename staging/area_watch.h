// The lock of a staging area, its waits, and its failure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/clock.h"
#include "staging/flight_queue.h"
#include "staging/staging_pool.h"

namespace penstock {

/// The sides of an area wait here for each other and for the device, and learn how the area ends.
/// If nothing changes for the watchdog's time, work of the device that hangs fails the area.
/// Thread-safe.
class AreaWatch {
  const std::shared_ptr<AreaLock> lock_;

 public:
  /// `queue` is guarded by the lock, and must outlive this object. `copy` is the name of the stream
  /// that copies.
  AreaWatch(DevicePtr device, std::shared_ptr<AreaLock> lock, const FlightQueue& queue,
            std::string copy, double watchdog_s);

  std::int64_t now() const noexcept { return clock_.now(); }
  std::int64_t watchdog_ns() const noexcept { return watchdog_ns_; }
  /// Returns the watchdog's time for a text: "2.5 s".
  std::string watchdog_text() const;
  const DevicePtr& device() const noexcept { return device_; }
  DeviceBackend& backend() const noexcept { return device_->backend(); }
  /// The kick that ends the reaper's wait for the device.
  Kick& kick() noexcept { return kick_; }
  void wake_reaper() noexcept { backend().kick(kick_); }

  Mutex& mutex;  // of all areas that share the pool
  /// Wakes everything that waits for a change.
  void changed() REQUIRES(mutex) { clock_.notify(lock_->changed); }
  /// Waits for a change since `since`, or until a deadline.
  void wait_for_change(std::int64_t since, std::int64_t until = TimeSource::kNever) REQUIRES(mutex);
  /// Fails the area if the device's work hangs.
  void find_what_hangs() REQUIRES(mutex);

  /// Ends the area with an error, or without one. The first error stays.
  void fail(const Status& error) noexcept REQUIRES(mutex);
  void close() noexcept REQUIRES(mutex) { closed_ = true; }
  bool closed() const noexcept REQUIRES(mutex) { return closed_; }
  const Status& failed() const noexcept REQUIRES(mutex) { return failed_; }
  void throw_if_over() REQUIRES(mutex);
  /// Sets an error of the device that passes, for the next consumer that waits.
  void set_pending(const Status& error) REQUIRES(mutex) { pending_ = error; }
  void throw_pending() REQUIRES(mutex);

 private:
  const DevicePtr device_;
  TimeSource& clock_;
  const std::string copy_;
  const std::int64_t watchdog_ns_;
  Kick kick_;
  const FlightQueue& queue_ GUARDED_BY(mutex);
  bool closed_ GUARDED_BY(mutex) = false;
  Status failed_ GUARDED_BY(mutex);
  Status pending_ GUARDED_BY(mutex);
};

}  // namespace penstock
