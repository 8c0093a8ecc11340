// Images of a batch that a tower's device makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <penstock/device.h>
#include <penstock/image.h>
#include <penstock/reconstruct.h>
#include <penstock/staged_batch.h>

namespace penstock::towers {

/// Makes the images that ImageOps::on_device left to the device of one tower. Used by the tower's
/// thread.
class DeviceImages {
 public:
  /// Prepares for batches of up to `rows` rows, on the tower's stream. Throws what Reconstructor's
  /// constructor throws.
  DeviceImages(StreamView stream, std::int64_t rows, const ImageOps& ops);
  /// Waits for the stream's work.
  ~DeviceImages();
  DeviceImages(const DeviceImages&) = delete;
  DeviceImages& operator=(const DeviceImages&) = delete;

  /// Enqueues the work. Returns the images, which the next call overwrites.
  DeviceTensor make(const StagedBatch& batch);
  /// Returns the bytes of the pixels of an image, one for each value.
  std::uint64_t pixels() const {
    return static_cast<std::uint64_t>(reconstructor_.image().shape.volume());
  }
  /// Returns the component that `make` makes.
  const std::string& component() const { return reconstructor_.image().name; }

 private:
  const StreamView stream_;
  const DevicePtr device_;
  Reconstructor reconstructor_;
  const std::size_t bytes_;
  std::byte* const data_;
};

}  // namespace penstock::towers
