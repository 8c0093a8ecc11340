// JPEGs made on the device, from coefficient records that nobody decodes on the host.
#pragma once

#include <cstdint>
#include <memory>

#include <penstock/image.h>
#include <penstock/staged_batch.h>

namespace penstock {

/// The device's part of a chain of image ops that ends in `on_device`: expands coefficients, does
/// the inverse DCT, upsamples, converts, crops, resizes, flips and normalises. The same bits as the
/// chain gives on the host, on every device. Keeps 2 MiB of working memory for each row. Used by
/// one thread at a time, and by one stream: work of another must be ordered behind it.
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
  /// For batches of up to `rows` rows. Throws Error{invalid_argument} for a chain that can't be
  /// made on a device, Error{resource_exhausted} if there is no memory.
  Reconstructor(const DevicePtr& device, std::int64_t rows, const ImageOps& ops);
  Reconstructor(Reconstructor&&) noexcept;
  Reconstructor& operator=(Reconstructor&&) noexcept;
  /// Work that was asked for must have ended.
  ~Reconstructor();

  /// What an image becomes, without the batch dimension.
  const ComponentSpec& image() const noexcept;
  /// Asks the stream for it, and returns. `out` is of that dtype and shape, with a row for each of
  /// the batch: rows of padding become zeros. Throws Error{invalid_argument} for what does not fit,
  /// Error{not_found} if the batch lacks a component.
  void run(StreamView stream, const StagedBatch& batch, const DeviceTensor& out);
  /// The same of the two components that the chain makes: the bytes, and the plans.
  void run(StreamView stream, const DeviceTensor& bytes, const DeviceTensor& plans,
           const DeviceTensor& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
