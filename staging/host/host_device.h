// The host as a device. Streams are threads, time may be simulated, and faults can be injected.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

#include "staging/clock.h"
#include "staging/host/checker.h"

namespace penstock {

/// Faults to inject. Numbers count from 1; 0: never.
struct HostFaults {
  std::uint64_t fail_allocation = 0;  ///< this allocation and all later ones fail
  std::uint64_t fail_pinning = 0;     ///< this pinning and all later ones fail
  std::uint64_t fail_record = 0;  ///< an error is reported when the stream reaches this `record`
  bool sticky = false;            ///< the device is then lost
  std::uint64_t hang_copy = 0;    ///< this copy never ends
};

/// Options of a host device.
struct HostOptions {
  int index = 0;
  TimeSource* clock = nullptr;     ///< null: real time. Must outlive the device
  bool unified = true;             ///< false: batches are copied to separate memory of the device
  double bytes_per_s = 0;          ///< of all copies together; 0: not limited
  std::int64_t latency_ns = 0;     ///< from the end of a copy until it counts as done
  std::uint64_t memory_bytes = 0;  ///< 0: unlimited
  bool check = false;              ///< check for hazards, and protect the pages of slots
  HostFaults faults{};
};

/// A host device. Implements the same interface as a GPU.
class HostDevice final : public DeviceBackend {
 public:
  static std::shared_ptr<HostDevice> make(HostOptions options);
  explicit HostDevice(HostOptions options);
  ~HostDevice() override;

  /// Runs work on the stream, like a kernel.
  void launch(StreamView stream, HostWork work, Site site = Site::current()) {
    launch(std::move(work), stream.state(), site);
  }
  void launch(HostWork work, StreamState& stream, const Site& site) override;
  /// Returns the hazards that the checker found; empty without `check`.
  std::vector<Hazard> hazards() const;

  DeviceId id() const noexcept override { return {DeviceKind::host, options_.index}; }
  std::string name() const override { return "host"; }
  bool unified() const noexcept override { return options_.unified; }
  DeviceMemory memory() const override EXCLUDES(mutex_);
  DeviceCounters counters() const noexcept override EXCLUDES(mutex_);
  std::byte* allocate(std::size_t bytes) override EXCLUDES(mutex_);
  void deallocate(std::byte* data, std::size_t bytes, Site site = Site::current()) noexcept override
      EXCLUDES(mutex_);
  std::shared_ptr<Allocator> pinned() override;
  Status status() noexcept override EXCLUDES(mutex_);
  std::unique_ptr<StreamState> create_stream(std::string name) override;
  std::unique_ptr<EventState> create_event() override;
  void record(EventState& event, StreamState& stream, const Site& site) override EXCLUDES(mutex_);
  void wait(StreamState& stream, EventState& event, const Site& site) override EXCLUDES(mutex_);
  void copy(const Copy& copy, StreamState& stream, const Site& site) override;
  void clear(std::span<std::byte> memory, StreamState& stream, const Site& site) override;
  void busy(std::int64_t nanoseconds, StreamState& stream) override;
  bool done(EventState& event) override EXCLUDES(mutex_);
  void synchronize(EventState& event, const Site& site) override EXCLUDES(mutex_);
  void synchronize(StreamState& stream, const Site& site) override EXCLUDES(mutex_);
  std::int64_t completed_ns(EventState& event) override EXCLUDES(mutex_);
  TimeSource& time() const noexcept override { return clock_; }
  void wait_any(std::span<const EventView> events, Kick& flag) override EXCLUDES(mutex_);
  void kick(Kick& flag) noexcept override EXCLUDES(mutex_);
  void host_access(std::span<const std::byte> memory, bool writes,
                   const Site& site = Site::current()) override;
  void hand_over(const void* what) override;
  void take_over(const void* what) override;
  bool guards() const noexcept override { return options_.check; }
  void guard(std::span<std::byte> memory, bool open, StreamState& stream) override;

 private:
  friend class HostStream;
  friend class HostEvent;
  class Pinned;
  struct Op;

  void enqueue(StreamState& stream, Op op) EXCLUDES(mutex_);
  void take_time(std::size_t bytes, std::int64_t start) EXCLUDES(mutex_);
  void fail(bool sticky, const std::string& stream) EXCLUDES(mutex_);
  /// Throws if the device is lost.
  void require_alive() REQUIRES(mutex_);
  /// One mutex for all host devices, because a stream may wait for an event of another device.
  static Mutex& mutex_of_all();

  const HostOptions options_;
  TimeSource& clock_;
  const std::unique_ptr<Checker> checker_;  // null without `check`
  std::shared_ptr<Pinned> pinned_;

  Mutex& mutex_ = mutex_of_all();
  Signal progress_;  // an event completed, or a reaper was kicked
  int streams_ GUARDED_BY(mutex_) = 0;
  DeviceCounters counters_ GUARDED_BY(mutex_);
  std::uint64_t records_ GUARDED_BY(mutex_) = 0;
  std::uint64_t used_bytes_ GUARDED_BY(mutex_) = 0;
  std::int64_t link_free_at_ GUARDED_BY(mutex_) = 0;  // when all copies so far have passed
  bool hung_ GUARDED_BY(mutex_) = false;
  Status error_ GUARDED_BY(mutex_);  // not reported yet
  Status lost_ GUARDED_BY(mutex_);
};

}  // namespace penstock
