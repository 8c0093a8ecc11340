#include "staging/shared_stream.h"

#include <utility>

namespace penstock {

SharedStream::SharedStream(DevicePtr device, std::unique_ptr<StreamState> state)
    : device_(std::move(device)), name_(state->name()), state_(std::move(state)) {}

StreamState& SharedStream::state() const {
  if (!ended_.load(std::memory_order_acquire)) return *state_;
  throw Error(ErrorCode::invalid_argument,
              device_->id().to_string() + ": the stream \"" + name_ + "\" has ended");
}

void SharedStream::end(bool shared) noexcept {
  try {
    const auto end = shared ? std::make_shared<const Event>(device_) : nullptr;
    MutexLock lock(mutex_);
    if (end) device_->backend().record(end->view().state(), *state_, Site::current());
    end_ = end;
    ended_.store(true, std::memory_order_release);
  } catch (...) {
    // Without an event that orders the next use of slots after this stream's work, the work must
    // end here.
    try {
      device_->backend().synchronize(*state_, Site::current());
    } catch (...) {  // a lost device does no more work
    }
    MutexLock lock(mutex_);
    ended_.store(true, std::memory_order_release);
  }
  state_.reset();
}

std::shared_ptr<const Event> SharedStream::record_or_end(EventView first, EventView second,
                                                         const Site& site) {
  MutexLock lock(mutex_);
  if (ended_.load(std::memory_order_relaxed)) {
    if (end_) return end_;
    throw Error(ErrorCode::unavailable, device_->id().to_string() + ": the stream \"" + name_ +
                                            "\" has ended, and its end could not be recorded");
  }
  device_->backend().record(first.state(), *state_, site);
  device_->backend().record(second.state(), *state_, site);
  return nullptr;
}

}  // namespace penstock
