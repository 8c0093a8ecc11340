// The part of a run's contexts that says what devices decode.
#pragma once

#include <cstdint>

namespace penstock {

/// The third interface of a run's contexts, next to `WorkContext` and `CodecBudget`.
class DeviceScans {
 public:
  /// Returns the most bytes of a JPEG that an op may pass on undecoded. 0: none, because nothing
  /// behind the run finds out whether the device can decode it.
  virtual std::uint64_t scan_bytes() const noexcept = 0;

 protected:
  DeviceScans() = default;
  DeviceScans(const DeviceScans&) = default;
  DeviceScans& operator=(const DeviceScans&) = default;
  ~DeviceScans() = default;
};

}  // namespace penstock
