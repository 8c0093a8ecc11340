// JPEG decoding on the device, from coefficient records and JPEGs that the host does not decode.
#pragma once

#include <cstdint>
#include <memory>

#include <penstock/image.h>
#include <penstock/staged_batch.h>

namespace penstock {

/// The device's part of a chain of image ops that ends in `on_device`. It decodes coefficients, or
/// the JPEGs of a feed's batches, does the inverse DCT, upsamples, converts, crops, resizes, flips
/// and normalises. It gives the same bits as the chain on the host, on every device. It keeps 2 MiB
/// of working memory for each row. One thread at a time may use it, and one stream: order work of
/// another stream after it.
///
///     const ImageOps ops = decode_image().random_resized_crop(224).random_flip().normalize();
///     Feed feed(image_records({"train.pnr"}).map(ops.on_device()).batch(64), {device},
///               {.max_bytes = 32 << 20});
///     Reconstructor reconstructor(device, 64, ops);
///     …
///     batch->wait(stream);
///     reconstructor.run(stream, *batch, images);  // images: f32 [64,3,224,224] on the device
///     batch->release(stream);
class Reconstructor {
 public:
  /// Prepares for batches of up to `rows` rows. Throws Error{invalid_argument} for a chain that
  /// can't run on a device, and Error{resource_exhausted} if there is no memory.
  Reconstructor(const DevicePtr& device, std::int64_t rows, const ImageOps& ops);
  Reconstructor(Reconstructor&&) noexcept;
  Reconstructor& operator=(Reconstructor&&) noexcept;
  /// Frees its memory. REQUIRES: all enqueued work has ended.
  ~Reconstructor();

  /// Returns the spec of an image, without the batch dimension.
  const ComponentSpec& image() const;
  /// Enqueues the work on the stream and returns. `out` has that dtype and shape, with a row for
  /// each row of the batch; rows of padding become zeros. Throws Error{invalid_argument} for
  /// arguments that do not fit, and Error{not_found} if the batch lacks a component.
  void run(StreamView stream, const StagedBatch& batch, const DeviceTensor& out);
  /// Enqueues the work for the two components that the chain makes: the bytes, and the plans.
  void run(StreamView stream, const DeviceTensor& bytes, const DeviceTensor& plans,
           const DeviceTensor& out);

 private:
  struct Impl;
  const Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
