// A gate in front of a stream's work.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>

#include <penstock/device_backend.h>

namespace penstock::test {

/// Holds streams up until it opens, at the latest when it is destroyed. Any thread may open it.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  /// Devices that run no host code, or in simulated time, are busy for `otherwise` instead.
  void hold(Device& device, StreamView stream, std::int64_t otherwise) {
    if (&device.backend().time() != &TimeSource::real()) return stream.busy(otherwise);
    const auto wait = [opened = opened_] { opened.wait_for(std::chrono::seconds(20)); };
    try {
      device.backend().launch({.run = wait}, stream.state(), Site::current());
    } catch (const Error&) {
      stream.busy(otherwise);
    }
  }
  void open() {
    if (!open_.exchange(true)) promise_.set_value();
  }

 private:
  std::atomic<bool> open_{false};
  std::promise<void> promise_;
  const std::shared_future<void> opened_ = promise_.get_future().share();
};

}  // namespace penstock::test
