// Local response normalisation.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The options of `lrn`.
struct LrnOptions {
  int radius = 4;                                    ///< channels on each side
  float bias = 1, alpha = 0.001F / 9, beta = 0.75F;  ///< as in the formula of `lrn`
};

/// Computes x_c * (bias + alpha * sum of x_d² over |d - c| <= radius) ^ -beta, over the last
/// dimension. As in TensorFlow, alpha is not divided by the window size; cuDNN and oneDNN do divide
/// it. Source: Krizhevsky et al., 2012, 3.3.
LayerPtr lrn(const Scope& scope, const LrnOptions& options = {});

}  // namespace penstock::towers
