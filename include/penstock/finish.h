// What is cheaper on the device than on its way there: the last step of image batches.
#pragma once

#include <array>
#include <cstdint>

#include <penstock/staged_batch.h>

namespace penstock {

/// Where one sample's output lies in its image. Pixels outside repeat the edge.
struct FinishSample {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t flip = 0;  ///< not 0: left and right are exchanged, within the crop
};

struct FinishOptions {
  bool channels_first = true;   ///< false: channels last, as in the input
  std::array<float, 4> mean{};  ///< of each channel, of values in [0, 255]
  std::array<float, 4> stddev{1, 1, 1, 1};
};

/// Turns images of u8 [n,h,w,c], c at most 4, into f32, f16 or bf16 of [n,c,h',w'] or [n,h',w',c],
/// in one pass on the stream: crop, flip, (value - mean) / stddev as a product and a sum in f32,
/// conversion. `samples` are n FinishSample in device memory, or null for the upper left corner
/// unflipped. The same bits on every device. Throws Error{invalid_argument} for what does not fit
/// together.
void finish_images(StreamView stream, const DeviceTensor& images, const FinishSample* samples,
                   const DeviceTensor& out, const FinishOptions& options);
void finish_images(StreamView stream, const DeviceTensor& images, const FinishSample* samples,
                   const DeviceTensor& out);

/// Labels i64 [n] to f32, f16 or bf16 of [n,k]: 1 where the column is the label's, else 0. A label
/// outside [0, k) has none.
void one_hot(StreamView stream, const DeviceTensor& labels, const DeviceTensor& out);

}  // namespace penstock
