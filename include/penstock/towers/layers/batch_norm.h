// Batch normalisation.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The options of a batch normalisation.
struct BatchNormOptions {
  std::int64_t channels = 0;  ///< the innermost dimension
  float momentum = 0.9F;      ///< share of the moving statistics that each step keeps
  float epsilon = 1e-5F;      ///< added to the variance
  /// Computes statistics over the batches of all towers, as if these were one batch; otherwise over
  /// the tower's own batch. Has an effect only where towers step together.
  bool synchronised = false;
  float scale = 1;  ///< initial value of gamma
  /// Computes relu(y) instead of y. On a GPU, a relu here takes no pass over memory of its own.
  bool relu = false;
};

/// Takes [n, ..., channels]. Scales each channel to mean 0 and variance 1 over valid rows and all
/// positions, then multiplies by gamma and adds beta. Evaluation uses moving statistics, whose
/// variance is the unbiased one. Variables: gamma, beta; statistics: mean, variance. Source: Ioffe
/// and Szegedy, 2015.
LayerPtr batch_norm(const Scope& scope, const BatchNormOptions& options);

}  // namespace penstock::towers
