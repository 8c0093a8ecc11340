// What a device is made of: to be implemented for a device of your own. Who only uses devices needs
// device.h alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/device.h>
#include <penstock/error.h>
#include <penstock/time_source.h>

namespace penstock {

/// What a back end knows of a stream. Destroying it lets work that was begun end.
class StreamState {
 public:
  virtual ~StreamState() = default;
  virtual const std::string& name() const noexcept = 0;
  /// The runtime's own handle (cudaStream_t), or null.
  virtual void* native() const noexcept { return nullptr; }
};

/// What a back end knows of an event. May be destroyed while a stream has still to record it.
class EventState {
 public:
  virtual ~EventState() = default;
};

/// Host code as work of a stream, with what it says it reads and writes.
struct HostWork {
  std::function<void()> run{};
  std::vector<std::span<const std::byte>> reads{};
  std::vector<std::span<const std::byte>> writes{};
  std::int64_t takes_ns = 0;  ///< simulated or slept, behind `run`
};

/// What interrupts one thread's wait; guarded by the device.
struct Kick {
  bool raised = false;
};

/// A device as `Device` shows it, and below what its streams, its events and staging ask of it. All
/// calls are thread-safe. Those that name a stream return at once, are done in the stream's order,
/// and what goes wrong with them later shows in `Device::status`; a device that is lost may throw
/// Error{device_lost}. States are those that this device made, but for the event that a stream
/// waits for, which may be another device's of the same kind. `tests/staging/device_test.cpp` is
/// the suite that every back end passes; examples/own_device.cpp is a small one.
class DeviceBackend : public Device {
 public:
  DeviceBackend& backend() noexcept final { return *this; }
  std::int64_t now() const noexcept override { return time().now(); }

  /// Threads and waits of this device's staging use it. All devices of one feed must have the same.
  virtual TimeSource& time() const noexcept = 0;

  // Streams and events.
  virtual std::unique_ptr<StreamState> create_stream(std::string name) = 0;
  virtual std::unique_ptr<EventState> create_event() = 0;
  /// See `Stream::wrap`.
  virtual std::unique_ptr<StreamState> wrap_stream(void* native);
  /// The event is done when the stream gets here; what was recorded in it before is forgotten.
  virtual void record(EventState& event, StreamState& stream, const Site& site) = 0;
  /// For the event's last record, as of now. None was: nothing.
  virtual void wait(StreamState& stream, EventState& event, const Site& site) = 0;
  /// At least one byte.
  virtual void copy(const Copy& copy, StreamState& stream, const Site& site) = 0;
  /// At least one byte.
  virtual void clear(std::span<std::byte> memory, StreamState& stream, const Site& site) = 0;
  virtual void busy(std::int64_t nanoseconds, StreamState& stream) = 0;
  /// Host code on the device's memory: `finish_images`, `one_hot` and `Reconstructor` compute so on
  /// devices whose memory the host can reach. Others throw Error{invalid_argument}, as this does.
  virtual void launch(HostWork work, StreamState& stream, const Site& site);
  virtual bool done(EventState& event) = 0;
  virtual void synchronize(EventState& event, const Site& site) = 0;
  virtual void synchronize(StreamState& stream, const Site& site) = 0;
  /// When it was done, on `now`'s clock. REQUIRES: it is, and was recorded.
  virtual std::int64_t completed_ns(EventState& event) = 0;

  // Staging.
  /// Blocks the calling thread until one of the events is done, or its flag was raised by `kick`;
  /// takes the flag down. Returns too where the device is lost. Where the runtime can't wait for
  /// one of several, until the first is done.
  virtual void wait_any(std::span<const EventView> events, Kick& flag) = 0;
  virtual void kick(Kick& flag) noexcept = 0;
  /// What the calling thread does from here on, for profilers (NVTX); nests.
  virtual void begin_range(const char* /*name*/) noexcept {}
  virtual void end_range() noexcept {}

  // For a device that looks for accesses that nothing orders; nothing elsewhere.
  /// The calling thread writes or reads this memory now.
  virtual void host_access(std::span<const std::byte> /*memory*/, bool /*writes*/,
                           const Site& /*site*/ = Site::current()) {}
  /// Whoever takes `what` over comes after everything this thread knows to be done.
  virtual void hand_over(const void* /*what*/) {}
  virtual void take_over(const void* /*what*/) {}
  /// True if `guard` does something.
  virtual bool guards() const noexcept { return false; }
  /// Memory that nobody may touch until it is opened again, in stream order.
  virtual void guard(std::span<std::byte> /*memory*/, bool /*open*/, StreamState& /*stream*/) {}
};

inline std::unique_ptr<StreamState> DeviceBackend::wrap_stream(void* /*native*/) {
  throw Error(ErrorCode::invalid_argument, id().to_string() + " has no streams of anybody else");
}

inline void DeviceBackend::launch(HostWork /*work*/, StreamState& /*stream*/,
                                  const Site& /*site*/) {
  throw Error(ErrorCode::invalid_argument,
              id().to_string() + " runs no host code: compute with kernels of its own");
}

}  // namespace penstock
