// Devices, streams and events: as in CUDA, behind one interface. A DeviceBackend implements them:
// penstock/device_backend.h.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/error.h>

namespace penstock {

class Device;
class DeviceBackend;
class EventState;
class StreamState;
/// A shared device.
using DevicePtr = std::shared_ptr<Device>;
/// The place of a call in the source, for reports. Every asynchronous call takes one, by default
/// its caller's.
struct Site {
  const char* file = "";  ///< of the source
  int line = 0;           ///< counted from 1
  /// Returns the place of the call, as std::source_location does, which Clang 14 lacks.
  static constexpr Site current(const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// The kind of a device. `other` is a back end from outside Penstock, whose author makes its
/// devices.
enum class DeviceKind : std::uint8_t { host, cuda, other };

/// The identity of a device: "cuda:0", "host:1", "other:0". It is a type of its own, so that it
/// can't be confused with another number.
struct DeviceId {
  DeviceKind kind = DeviceKind::host;  ///< of the back end
  int index = 0;                       ///< of the device, as its back end counts

  /// Returns the id that `text` names. Throws Error{invalid_argument} for anything but "host:N" or
  /// "cuda:N": other devices have no name by which they could be opened.
  static DeviceId parse(std::string_view text);
  /// Returns "cuda:0".
  std::string to_string() const;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

/// A point in a stream's work. Cheap to copy. Unlike a stream's view, it must not outlive its
/// owner. Thread-safe.
class EventView {
 public:
  /// For back ends: a view of an event of this device.
  EventView(Device& device, EventState& state) noexcept : device_(&device), state_(&state) {}
  /// Returns true once all work before the last `record` has ended; also if there was no `record`.
  bool done() const;
  /// Blocks the calling thread until the event is done. For reaper threads, tests and the end of a
  /// program.
  void synchronize(Site site = Site::current()) const;
  /// Returns when the event was done, on `Device::now`'s clock. REQUIRES: done(), and recorded at
  /// least once.
  std::int64_t completed_ns() const;
  /// Returns the event's device.
  Device& device() const noexcept { return *device_; }
  /// For back ends: returns their data of the event.
  EventState& state() const noexcept { return *state_; }

 private:
  Device* device_;
  EventState* state_;
};

/// A copy of `bytes` bytes.
struct Copy {
  void* to = nullptr;          ///< the destination
  const void* from = nullptr;  ///< the source
  std::size_t bytes = 0;       ///< how many
};

/// The part of a stream that its views and the leases that wait for it share. Penstock implements
/// it. Its methods are virtual, so modules that do not link the library can call them.
class StreamCore {
 public:
  virtual ~StreamCore() = default;
  /// Returns the stream's device.
  virtual Device& device() const noexcept = 0;
  /// Returns the stream's name in errors and reports.
  virtual const std::string& name() const noexcept = 0;
  /// For back ends: returns their data of the stream.
  virtual StreamState& state() const = 0;
};

/// A queue of a device's work, which runs in order. Cheap to copy. Calls return at once and are
/// thread-safe. Later failures show in `Device::status`. A view may outlive its stream, and keeps
/// the device alive. Once the stream has ended, all calls but `name` and `device` throw
/// Error{invalid_argument} that names it. A stream must not end during a call.
class StreamView {
 public:
  /// No stream. REQUIRES: assigned to before use.
  StreamView() = default;
  // Moving copies, so a view that was moved from is a view of the same stream. Kernel modules
  // cannot throw an Error for null, because they do not link the library.
  StreamView(const StreamView&) = default;
  StreamView& operator=(const StreamView&) = default;
  ~StreamView() = default;
  /// Records the event at this point of the stream. This replaces its last record.
  void record(EventView event, Site site = Site::current()) const;
  /// Makes later work wait until the event's last record, as of now, is done. The host does not
  /// wait.
  void wait(EventView event, Site site = Site::current()) const;
  /// Copies between any two of host and device. Host memory that is not pinned is allowed, and
  /// slow.
  void copy(const Copy& copy, Site site = Site::current()) const;
  /// Sets bytes to zero.
  void clear(std::span<std::byte> memory, Site site = Site::current()) const;
  /// Keeps the stream occupied without using the CPU, as a step that computes nothing.
  void busy(std::int64_t nanoseconds) const;
  /// Blocks the calling thread until all work is done.
  void synchronize(Site site = Site::current()) const;
  /// Returns the stream's name in errors and reports.
  const std::string& name() const noexcept { return core_->name(); }
  /// Returns the runtime's own handle (cudaStream_t), or null where there is none.
  void* native() const;
  /// Returns the stream's device.
  Device& device() const noexcept { return core_->device(); }
  /// For back ends: returns their data of the stream.
  StreamState& state() const { return core_->state(); }
  /// Returns true for views of the same `Stream`.
  friend bool operator==(const StreamView&, const StreamView&) = default;

 private:
  friend class SharedStream;
  friend class Stream;
  explicit StreamView(std::shared_ptr<StreamCore> core) noexcept : core_(std::move(core)) {}
  std::shared_ptr<StreamCore> core_;
};

/// The owner of an event. Move-only. Destruction lets work that has begun end.
class Event {
 public:
  /// Creates an event on `device`.
  explicit Event(const DevicePtr& device);
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  ~Event();
  /// Returns a view, which this must outlive.
  EventView view() const;
  /// Returns a view, as `view` does.
  operator EventView() const { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  DevicePtr device_;
  std::unique_ptr<EventState> state_;
};

/// The owner of a stream. Move-only. Destruction lets work that has begun end. Leases and exported
/// tensors that wait for the stream may outlive it: their slots are free once that work has ended.
class Stream {
 public:
  /// Creates a stream on `device`; `name` stands in errors and reports.
  Stream(const DevicePtr& device, std::string name);
  /// Returns a stream that other code owns, by its `native` handle (a cudaStream_t). That stream
  /// must outlive this one; it need not outlive the leases that wait for this one. They know the
  /// native stream's work up to the end of this one, so keep this one until the last use of a batch
  /// is enqueued. Throws Error{invalid_argument} where streams have no handle, as on the host.
  static Stream wrap(const DevicePtr& device, void* native);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();
  /// Returns a view, which may outlive this.
  StreamView view() const;
  /// Returns a view, as `view` does.
  operator StreamView() const { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  Stream(const DevicePtr& device, std::unique_ptr<StreamState> state);
  void end() noexcept;
  std::shared_ptr<StreamCore> core_;
};

/// The memory of a device.
struct DeviceMemory {
  std::uint64_t total_bytes = 0;  ///< of the device
  std::uint64_t free_bytes = 0;   ///< of these, free
};

/// Counts of the requests to a device; they show that a steady state costs nothing.
struct DeviceCounters {
  std::uint64_t allocations = 0;         ///< of device memory
  std::uint64_t pinned_allocations = 0;  ///< of host memory
  std::uint64_t pageable_fallbacks = 0;  ///< pinning was refused
  std::uint64_t copies = 0;              ///< enqueued
  std::uint64_t copied_bytes = 0;        ///< by these
  std::uint64_t host_waits = 0;          ///< `synchronize` calls, without the reaper's waits
};

/// A GPU, the host in the role of one, or a device of your own back end. Thread-safe. `device` or
/// `devices` make it, or the back end's own function.
class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;

  /// Returns which device this is.
  virtual DeviceId id() const noexcept = 0;
  /// Returns "NVIDIA H200" or "host".
  virtual std::string name() const = 0;
  /// Returns true if the device computes directly on host memory; batches are then handed over in
  /// place.
  virtual bool unified() const noexcept = 0;
  /// Returns the device's memory, in bytes.
  virtual DeviceMemory memory() const = 0;
  /// Returns the counts so far.
  virtual DeviceCounters counters() const noexcept = 0;
  /// Returns nanoseconds on the clock that stamps events.
  virtual std::int64_t now() const noexcept = 0;

  /// Returns device memory, aligned to 256 bytes. Throws Error{resource_exhausted} with the bytes
  /// wanted and free; the device remains usable after that.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Frees memory. REQUIRES: all work on it has ended.
  virtual void deallocate(std::byte* data, std::size_t bytes,
                          Site site = Site::current()) noexcept = 0;
  /// Returns an allocator of host memory that the device copies from at full speed. Where pinning
  /// is refused the memory is pageable; this is logged once and counted. Outlives the device.
  virtual std::shared_ptr<Allocator> pinned() = 0;
  /// Lets this device's streams copy from and to the other's memory directly, if the two can.
  /// Before that, and otherwise, copies go through the host. Allocation becomes slower.
  virtual void enable_peer(Device& /*other*/) {}

  /// Returns ok, or what went wrong since the last call. Error{device_lost} is permanent; other
  /// errors are reported once.
  virtual Status status() noexcept = 0;
  /// Throws the error that `status` returns, if any.
  void check();

  /// For streams, events and staging only.
  virtual DeviceBackend& backend() noexcept = 0;
};

/// Opens "cuda:0" or "host:0". Calls for one id share the device. Throws Error{not_found} if it
/// does not exist, saying whether driver, library or device is missing.
DevicePtr device(DeviceId id);
/// Opens a list of devices: "cuda:0,cuda:1" or "host:0"; "cuda:*" is all that are visible. You may
/// name the same device twice. A host device can imitate another device,
/// "host:0:bytes_per_s=1e9:hang_copy=7", and is then not shared; see docs/staging.md. Throws
/// Error{invalid_argument} for an unknown kind or option.
std::vector<DevicePtr> devices(std::string_view list);

}  // namespace penstock
