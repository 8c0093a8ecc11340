// Ops on whole batches of images: they mix rows with each other.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/work.h>

namespace penstock {

/// The options of `mixup` and `cutmix`.
struct BatchMixOptions {
  /// The share is drawn from the distribution Beta(alpha, alpha); above 0.
  double alpha = 1.0;
  /// The number of classes: labels i64 [rows] become f32 [rows, classes]. 0: labels are f32 [rows,
  /// classes] already.
  std::int64_t classes = 0;
  std::string image = "image";  ///< component of the images
  std::string label = "label";  ///< component of the labels
};

/// Returns an op that mixes the rows of a batch: `batch(n).map_op(mixup({.classes = 1000}))`. Row i
/// becomes share * row i + (1 - share) * row i - 1 (the first mixes with the last); labels are
/// mixed the same way. The share is drawn once a batch, with random numbers of the op's own. The
/// image must be f16, bf16, f32 or f64, of any shape. Source: Zhang et al., "mixup: beyond
/// empirical risk minimization", 2018; rows are paired as torchvision does.
///
/// Rows that are padding stay as they are. A label outside of [0, classes) is the batch's error.
/// Throws Error{invalid_argument} for wrong options, and when it is added to a dataset whose
/// elements do not fit. Thread-safe. Its memory counts against the budget.
WorkOpPtr mixup(BatchMixOptions options = {});

/// Returns an op that copies a box of row i - 1 into row i and mixes the labels by area. The box
/// has a random place, and its area is 1 - share of the image. Images are of any dtype but bytes,
/// of shape [rows, height, width, ...] or, if `chw`, [rows, channels, height, width]. Source: Yun
/// et al., "CutMix", 2019; the box is drawn as torchvision does. All else is as for `mixup`.
WorkOpPtr cutmix(BatchMixOptions options = {}, bool chw = false);

}  // namespace penstock
