// The part of a stream that outlives it, for views and leases.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/device_backend.h>
#include <penstock/internal/thread_annotations.h>

namespace penstock {

/// A stream and, once it has ended, the event of its end. Leases are released on any thread, also
/// while the stream ends.
class SharedStream final : public StreamCore {
 public:
  SharedStream(DevicePtr device, std::unique_ptr<StreamState> state);
  static SharedStream& of(const StreamView& view) noexcept {
    return static_cast<SharedStream&>(*view.core_);
  }

  Device& device() const noexcept override { return *device_; }
  const std::string& name() const noexcept override { return name_; }
  /// Returns the back end's data. Throws Error{invalid_argument} once the stream has ended.
  StreamState& state() const override;

  /// Ends the stream. `shared`: views or leases are left, so the end is recorded.
  void end(bool shared) noexcept EXCLUDES(mutex_);
  /// Records both events, and returns null. Once the stream has ended, records none, and returns
  /// the event of its end. Throws Error{unavailable} if that could not be recorded.
  std::shared_ptr<const Event> record_or_end(EventView first, EventView second, const Site& site)
      EXCLUDES(mutex_);

 private:
  const DevicePtr device_;  // first, because it must outlive the states
  const std::string name_;
  std::unique_ptr<StreamState> state_;  // null after the end
  Mutex mutex_;                         // keeps the stream from ending between two records
  std::atomic<bool> ended_{false};
  std::shared_ptr<const Event> end_ GUARDED_BY(mutex_);
};

/// The point of a stream's work at which it passes a release.
struct ReleasePoint {
  explicit ReleasePoint(const DevicePtr& device) : recorded(device) {}
  EventView view() const noexcept { return end ? end->view() : recorded.view(); }
  /// Returns when a release that was requested at `released` was passed. REQUIRES: view().done().
  std::int64_t passed_ns(std::int64_t released) const {
    const std::int64_t done = view().completed_ns();
    return end ? std::max(done, released) : done;
  }

  Event recorded;
  std::shared_ptr<const Event> end;  // instead of `recorded`, if the stream had ended
};

}  // namespace penstock
