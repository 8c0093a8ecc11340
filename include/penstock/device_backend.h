// Device back ends: implement one for a device of your own. To use devices, device.h is enough.
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

/// A back end's data of a stream. Destruction lets work that has begun end.
class StreamState {
 public:
  virtual ~StreamState() = default;
  /// Returns the stream's name.
  virtual const std::string& name() const noexcept = 0;
  /// Returns the runtime's own handle (cudaStream_t), or null.
  virtual void* native() const noexcept { return nullptr; }
};

/// A back end's data of an event. It may be destroyed before a stream has recorded it.
class EventState {
 public:
  virtual ~EventState() = default;
};

/// Host code as work of a stream, with the memory that it declares to read and write.
struct HostWork {
  std::function<void()> run{};                       ///< the code
  std::vector<std::span<const std::byte>> reads{};   ///< memory that it reads
  std::vector<std::span<const std::byte>> writes{};  ///< memory that it writes
  std::int64_t takes_ns = 0;                         ///< simulated or slept, after `run`
};

/// A flag that interrupts one thread's wait. The device guards it.
struct Kick {
  bool raised = false;  ///< the wait is to end
};

/// A device as `Device` shows it, with the functions that its streams, its events and staging need.
/// All calls are thread-safe. Calls that name a stream return at once and run in the stream's
/// order. Their later failures show in `Device::status`; a lost device may throw
/// Error{device_lost}. This device made all states that it is given, except the event that a stream
/// waits for: this may belong to another device of the same kind. `tests/staging/device_test.cpp`
/// is the suite that every back end passes; examples/own_device.cpp is a small one.
class DeviceBackend : public Device {
 public:
  DeviceBackend& backend() noexcept final { return *this; }
  std::int64_t now() const noexcept override { return time().now(); }

  /// Returns the clock and threads of this device's staging. All devices of one feed must have the
  /// same.
  virtual TimeSource& time() const noexcept = 0;

  // Streams and events.

  /// Creates a stream.
  virtual std::unique_ptr<StreamState> create_stream(std::string name) = 0;
  /// Creates an event.
  virtual std::unique_ptr<EventState> create_event() = 0;
  /// Wraps a stream that other code owns; see `Stream::wrap`.
  virtual std::unique_ptr<StreamState> wrap_stream(void* native);
  /// Makes the event done when the stream gets here. This replaces its last record.
  virtual void record(EventState& event, StreamState& stream, const Site& site) = 0;
  /// Makes the stream wait for the event's last record, as of now. Without a record it does not
  /// wait.
  virtual void wait(StreamState& stream, EventState& event, const Site& site) = 0;
  /// Copies memory. REQUIRES: at least one byte.
  virtual void copy(const Copy& copy, StreamState& stream, const Site& site) = 0;
  /// Sets memory to zeros. REQUIRES: at least one byte.
  virtual void clear(std::span<std::byte> memory, StreamState& stream, const Site& site) = 0;
  /// Keeps the stream occupied without using the CPU.
  virtual void busy(std::int64_t nanoseconds, StreamState& stream) = 0;
  /// Runs host code on the device's memory. `finish_images`, `one_hot` and `Reconstructor` compute
  /// this way on devices whose memory the host can reach. Other devices throw
  /// Error{invalid_argument}, as this default does.
  virtual void launch(HostWork work, StreamState& stream, const Site& site);
  /// Returns true if the event is done, or was never recorded.
  virtual bool done(EventState& event) = 0;
  /// Blocks the calling thread until the event is done.
  virtual void synchronize(EventState& event, const Site& site) = 0;
  /// Blocks the calling thread until the stream's work is done.
  virtual void synchronize(StreamState& stream, const Site& site) = 0;
  /// Returns when the event was done, on `now`'s clock. REQUIRES: it is done, and was recorded.
  virtual std::int64_t completed_ns(EventState& event) = 0;

  // Staging.

  /// Blocks the calling thread until one of the events is done or `kick` has raised its flag, and
  /// clears the flag. Also returns if the device is lost. If the runtime can't wait for one of
  /// several events, it waits until the first of them is done.
  virtual void wait_any(std::span<const EventView> events, Kick& flag) = 0;
  /// Raises the flag, and wakes the thread that waits with it.
  virtual void kick(Kick& flag) noexcept = 0;
  /// Names the work of the calling thread from here on, for profilers (NVTX). Ranges nest.
  virtual void begin_range(const char* /*name*/) noexcept {}
  /// Ends the last range.
  virtual void end_range() noexcept {}

  // For a device that looks for accesses that nothing orders. Other devices do nothing.

  /// Declares that the calling thread writes or reads this memory now.
  virtual void host_access(std::span<const std::byte> /*memory*/, bool /*writes*/,
                           const Site& /*site*/ = Site::current()) {}
  /// Declares that a thread which takes `what` over comes after everything that this thread knows
  /// to be done.
  virtual void hand_over(const void* /*what*/) {}
  /// Declares that the calling thread takes `what` over.
  virtual void take_over(const void* /*what*/) {}
  /// Returns true if `guard` does something.
  virtual bool guards() const noexcept { return false; }
  /// Closes memory to all access, in stream order, until a call with `open` opens it again.
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
