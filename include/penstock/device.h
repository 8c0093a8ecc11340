// Devices, streams and events: as in CUDA, behind one interface. What implements them is a
// DeviceBackend: penstock/device_backend.h.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/buffer.h>
#include <penstock/error.h>

namespace penstock {

class Device;
class DeviceBackend;
class EventState;
class StreamState;
using DevicePtr = std::shared_ptr<Device>;
/// Where a call was made, for reports. Every asynchronous call takes one, by default its caller's.
struct Site {
  const char* file = "";
  int line = 0;
  /// As std::source_location, which Clang 14 lacks.
  static constexpr Site current(const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// `other`: of a back end from outside, which whoever wrote it makes.
enum class DeviceKind : std::uint8_t { host, cuda, other };

/// Which device: "cuda:0", "host:1", "other:0". A type, so that it is not taken for another number.
struct DeviceId {
  DeviceKind kind = DeviceKind::host;
  int index = 0;

  /// Throws Error{invalid_argument} for anything but "host:N" or "cuda:N": others have no name by
  /// which they could be opened.
  static DeviceId parse(std::string_view text);
  std::string to_string() const;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

/// A point in a stream's work. Cheap to copy; the owner must outlive it. Thread-safe.
class EventView {
 public:
  EventView(Device& device, EventState& state) noexcept : device_(&device), state_(&state) {}
  /// True once all work in front of the last `record` has ended; also if there was none.
  bool done() const;
  /// Blocks the calling thread until then. For reaper threads, tests and the end of a program.
  void synchronize(Site site = Site::current()) const;
  /// When it was done, on `Device::now`'s clock. REQUIRES: done(), and recorded at least once.
  std::int64_t completed_ns() const;
  Device& device() const noexcept { return *device_; }
  EventState& state() const noexcept { return *state_; }

 private:
  Device* device_;
  EventState* state_;
};

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

/// Work in order. Cheap to copy; the owner must outlive it. Calls return at once and are
/// thread-safe; what goes wrong later shows in `Device::status`.
class StreamView {
 public:
  /// No stream. REQUIRES: assigned to before anything is asked of it.
  StreamView() = default;
  StreamView(Device& device, StreamState& state) noexcept : device_(&device), state_(&state) {}
  /// Marks this point of the stream; what was recorded before is forgotten.
  void record(EventView event, Site site = Site::current()) const;
  /// Work from here on begins when the event's last record, as of now, is done. The host does not
  /// wait.
  void wait(EventView event, Site site = Site::current()) const;
  /// Between any two of host and device. Host memory that is not pinned is legal and slow.
  void copy(const Copy& copy, Site site = Site::current()) const;
  /// Sets bytes to zero.
  void clear(std::span<std::byte> memory, Site site = Site::current()) const;
  /// Keeps the stream occupied, burning no CPU: a step that computes nothing.
  void busy(std::int64_t nanoseconds) const;
  /// Blocks the calling thread until all work is done.
  void synchronize(Site site = Site::current()) const;
  /// What it is called in errors and reports.
  const std::string& name() const noexcept;
  /// The runtime's own handle (cudaStream_t), or null where there is none.
  void* native() const noexcept;
  Device& device() const noexcept { return *device_; }
  StreamState& state() const noexcept { return *state_; }

 private:
  Device* device_ = nullptr;
  StreamState* state_ = nullptr;
};

/// Owners. Move-only; destroying one lets work that was begun end.
class Event {
 public:
  explicit Event(const DevicePtr& device);
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  ~Event();
  EventView view() const noexcept { return {*device_, *state_}; }
  operator EventView() const noexcept { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  DevicePtr device_;
  std::unique_ptr<EventState> state_;
};

class Stream {
 public:
  Stream(const DevicePtr& device, std::string name);
  /// A stream that somebody else owns, by its `native` handle (a cudaStream_t), which must outlive
  /// this. Throws Error{invalid_argument} where streams have none, as on the host.
  static Stream wrap(const DevicePtr& device, void* native);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();
  StreamView view() const noexcept { return {*device_, *state_}; }
  operator StreamView() const noexcept { return view(); }  // NOLINT(google-explicit-constructor)

 private:
  Stream(DevicePtr device, std::unique_ptr<StreamState> state);
  DevicePtr device_;
  std::unique_ptr<StreamState> state_;
};

struct DeviceMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

/// What a device was asked to do; to show that a steady state costs nothing.
struct DeviceCounters {
  std::uint64_t allocations = 0;
  std::uint64_t pinned_allocations = 0;
  std::uint64_t pageable_fallbacks = 0;  ///< pinning was refused
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t host_waits = 0;  ///< `synchronize` calls; the reaper's waits are not counted
};

/// A GPU, the host that behaves like one, or what somebody wrote a back end for. Thread-safe. Made
/// by `device` or `devices`, or by the back end's own function.
class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;

  virtual DeviceId id() const noexcept = 0;
  /// "NVIDIA H200", "host".
  virtual std::string name() const = 0;
  /// True if the device computes on host memory as it lies: batches are then handed over in place.
  virtual bool unified() const noexcept = 0;
  virtual DeviceMemory memory() const = 0;
  virtual DeviceCounters counters() const noexcept = 0;
  /// Nanoseconds on the clock that events are stamped with.
  virtual std::int64_t now() const noexcept = 0;

  /// Device memory, aligned to 256 bytes. Throws Error{resource_exhausted} with the bytes wanted
  /// and free; the device can be used after that.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Not before all work on it has ended.
  virtual void deallocate(std::byte* data, std::size_t bytes,
                          Site site = Site::current()) noexcept = 0;
  /// Host memory to copy from at full speed. Where pinning is refused the memory is pageable, which
  /// is said once and counted. Outlives the device.
  virtual std::shared_ptr<Allocator> pinned() = 0;
  /// From here on this device's streams copy from and to the other's memory directly, if the two
  /// can; until then, and otherwise, through the host. Allocating becomes slower by that.
  virtual void enable_peer(Device& /*other*/) {}

  /// Ok, or what went wrong since. Error{device_lost} is for good; others are told once.
  virtual Status status() noexcept = 0;
  /// Throws what `status` tells.
  void check();

  /// What streams, events and staging call, and nobody else needs to.
  virtual DeviceBackend& backend() noexcept = 0;
};

/// Opens "cuda:0" or "host:0". Calls for one id share the device. Throws Error{not_found} if there
/// is none, saying whether driver, library or device is missing.
DevicePtr device(DeviceId id);
/// "cuda:0,cuda:1", "host:0"; "cuda:*" is all that are visible. The same may be named twice. A host
/// device may be told to behave like another, "host:0:bytes_per_s=1e9:hang_copy=7", and is then not
/// shared; see docs/staging.md. Throws Error{invalid_argument} for what it does not know.
std::vector<DevicePtr> devices(std::string_view list);

}  // namespace penstock
