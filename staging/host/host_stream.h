// The streams and events of the host device.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <penstock/device_backend.h>

#include "pipeline/core/ring.h"
#include "staging/clock.h"
#include "staging/host/host_device.h"

namespace penstock {

/// The state of an event that streams use. Outlives the event while work refers to it. Guarded by
/// the device's mutex.
struct HostEventCore {
  std::uint64_t recorded = 0;
  std::uint64_t completed = 0;  // the number of these that completed
  std::int64_t at_ns = 0;       // when the last of these completed
  Signal done;
};

/// An event of the host device.
class HostEvent final : public EventState {
 public:
  explicit HostEvent(HostDevice& device) : device_(device) {}
  ~HostEvent() override {
    if (device_.checker_) device_.checker_->forget(this);
  }
  const std::shared_ptr<HostEventCore>& core() const noexcept { return core_; }

 private:
  HostDevice& device_;
  const std::shared_ptr<HostEventCore> core_ = std::make_shared<HostEventCore>();
};

/// One item of a stream's work.
struct HostDevice::Op {
  enum class Kind : std::uint8_t { copy, clear, record, wait, call, guard };
  Kind kind = Kind::call;
  bool fails = false;  // a record reports an error; a copy never ends
  bool sticky = false;
  bool open = false;  // for `guard`
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  std::int64_t takes_ns = 0;
  std::shared_ptr<HostEventCore> event{};
  std::uint64_t ticket = 0;  // the number of this record of the event
  std::function<void()> call{};
};

/// A queue of work, and the thread that does it.
class HostStream final : public StreamState {
 public:
  HostStream(HostDevice& device, std::string name, int number, int checked_as);
  ~HostStream() override;
  const std::string& name() const noexcept override { return name_; }
  int checked_as() const noexcept { return checked_as_; }

 private:
  friend class HostDevice;
  using Op = HostDevice::Op;
  /// REQUIRES: the device's mutex.
  void push(Op op);
  void serve();
  void execute(Op& op);
  /// Executes operations that lock the device's mutex, on which they also wait.
  void execute_locked(Op& op) REQUIRES(device_.mutex_);

  HostDevice& device_;
  const std::string name_;
  const int checked_as_;  // the number by which the checker knows it
  Signal work_;
  Signal idle_;
  Ring<Op> queue_ GUARDED_BY(device_.mutex_);
  std::uint64_t enqueued_ GUARDED_BY(device_.mutex_) = 0;
  std::uint64_t executed_ GUARDED_BY(device_.mutex_) = 0;
  // The event that the thread waits for now.
  std::shared_ptr<HostEventCore> waits_for_ GUARDED_BY(device_.mutex_);
  bool stopping_ GUARDED_BY(device_.mutex_) = false;
  Actor thread_;
};

}  // namespace penstock
