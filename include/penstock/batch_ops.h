// Ops on whole batches of images: rows are mixed with each other.
#pragma once

#include <cstdint>
#include <string>

#include <penstock/work.h>

namespace penstock {

struct BatchMixOptions {
  /// Of the distribution Beta(alpha, alpha) that the share is drawn from; above 0.
  double alpha = 1.0;
  /// Classes: labels i64 [rows] become f32 [rows, classes]. 0: labels are f32 [rows, classes]
  /// already.
  std::int64_t classes = 0;
  std::string image = "image";
  std::string label = "label";
};

/// For a batch, `batch(n).map_op(mixup({.classes = 1000}))`: row i becomes share * row i +
/// (1 - share) * row i - 1 (the first mixes with the last), labels too. The share is drawn once a
/// batch. The image must be f16, bf16, f32 or f64, of any shape. Source: Zhang et al., "mixup:
/// beyond empirical risk minimization", 2018; rows are paired as torchvision does.
///
/// Rows that are padding stay as they are. A label outside of [0, classes) is the batch's error.
/// Throws Error{invalid_argument} for wrong options, and when it is added to a dataset whose
/// elements do not fit. Thread-safe; memory counts against the budget.
WorkOpPtr mixup(BatchMixOptions options = {});

/// The same by area: a box of row i - 1, of random place and of the share of the area that is left,
/// is copied into row i; labels are mixed by the area. Images are of any dtype but bytes, of shape
/// [rows, height, width, ...] or, if `chw`, [rows, channels, height, width]. Source: Yun et al.,
/// "CutMix", 2019; the box is drawn as torchvision does.
WorkOpPtr cutmix(BatchMixOptions options = {}, bool chw = false);

}  // namespace penstock
