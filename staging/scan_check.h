// Asks a device which JPEGs of a batch it can decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <penstock/device.h>
#include <penstock/element.h>
#include <penstock/spec.h>
#include <penstock/staging_area.h>

namespace penstock {

/// Lets a device decode the scans of a batch and keeps nothing. It has a slot of its own. Used by
/// one thread.
class ScanCheck {
 public:
  struct Options {
    std::int64_t rows = 0;        ///< the most rows of a batch
    std::uint64_t max_bytes = 0;  ///< see StagingOptions: room for the images of a batch
    double watchdog_s = 60;       ///< see StagingOptions
  };
  /// Returns the component of the batches that holds such images; nothing unless it is one.
  static std::optional<std::string> images_of(const Spec& batches);
  /// Returns the device memory that a check takes.
  static std::uint64_t device_bytes(const Spec& batches, const std::string& images,
                                    const Options& options);

  /// Throws Error{resource_exhausted} if the device has no room.
  ScanCheck(const DevicePtr& device, const Spec& batches, const std::string& images,
            const Options& options);
  ~ScanCheck();
  ScanCheck(const ScanCheck&) = delete;
  ScanCheck& operator=(const ScanCheck&) = delete;

  /// Returns how many JPEGs of the batch the device does not decode: all, if the images have more
  /// than `max_bytes`. Waits for the device. Throws the device's error, and Error{no_progress} if
  /// it hangs. It must not be called again after that.
  std::int64_t undecoded(const Element& batch);

 private:
  const std::string images_;
  const std::string plans_;
  const DevicePtr device_;
  const std::shared_ptr<Allocator> pinned_;
  const std::size_t rows_;
  const std::uint64_t max_bytes_;
  const std::size_t bytes_;       // of `memory_`
  std::byte* memory_ = nullptr;   // of the device: working memory, and the fits
  std::int32_t* fits_ = nullptr;  // on the host
  std::optional<Stream> stream_;
  std::optional<StagingArea> area_;
  std::optional<StagingPermit> permit_;  // held while no batch is checked
};

}  // namespace penstock
