// The last step of image batches, computed on the device because it makes copies smaller.
#pragma once

#include <array>
#include <cstdint>

#include <penstock/staged_batch.h>

namespace penstock {

/// The place of one sample's output in its image. Pixels outside of the image repeat the edge.
struct FinishSample {
  std::int32_t top = 0;   ///< row of the image where the output begins
  std::int32_t left = 0;  ///< column of the image where the output begins
  std::int32_t flip = 0;  ///< not 0: exchanges left and right, within the crop
};

/// The options of `finish_images`.
struct FinishOptions {
  bool channels_first = true;               ///< false: channels last, as in the input
  std::array<float, 4> mean{};              ///< of each channel, for values in [0, 255]
  std::array<float, 4> stddev{1, 1, 1, 1};  ///< of each channel, in the same units
};

/// Turns images of u8 [n,h,w,c], c at most 4, into f32, f16 or bf16 of [n,c,h',w'] or [n,h',w',c].
/// One pass on the stream crops, flips, computes (value - mean) / stddev as a product and a sum in
/// f32, and converts. `samples` are n FinishSample in device memory, or null for the upper left
/// corner, unflipped. Every device computes the same bits. Throws Error{invalid_argument} for
/// arguments that do not fit together.
void finish_images(StreamView stream, const DeviceTensor& images, const FinishSample* samples,
                   const DeviceTensor& out, const FinishOptions& options);
/// Finishes images with default options.
void finish_images(StreamView stream, const DeviceTensor& images, const FinishSample* samples,
                   const DeviceTensor& out);

/// Turns labels i64 [n] into f32, f16 or bf16 of [n,k]: 1 in the label's column, else 0. The row of
/// a label outside [0, k) has only zeros. Throws Error{invalid_argument} for tensors that do not
/// fit together.
void one_hot(StreamView stream, const DeviceTensor& labels, const DeviceTensor& out);

}  // namespace penstock
