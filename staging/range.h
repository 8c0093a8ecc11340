// Names the current activity of a thread for profilers.
#pragma once

#include <penstock/device_backend.h>

namespace penstock {

/// A named range that lasts as long as this object.
class Range {
 public:
  Range(DeviceBackend& device, const char* name) noexcept : device_(device) {
    device_.begin_range(name);
  }
  ~Range() { device_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  DeviceBackend& device_;
};

}  // namespace penstock
