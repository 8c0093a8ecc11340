// Batch normalisation.
#pragma once

#include "towers/layer.h"

namespace penstock::towers {

struct BatchNormOptions {
  std::int64_t channels = 0;
  float momentum = 0.9F;  ///< of the moving statistics: kept share
  float epsilon = 1e-5F;
  /// Statistics over the batches of all towers, so that towers are as one with their batches
  /// together; else over the tower's own. Counts only where towers step together.
  bool synchronised = false;
  float scale = 1;  ///< what gamma begins with
};

/// [n, ..., channels]: each channel to mean 0 and variance 1 over valid rows and all positions,
/// then times gamma plus beta. Evaluation uses moving statistics, whose variance is the unbiased
/// one. Variables: gamma, beta; statistics: mean, variance. Source: Ioffe and Szegedy, 2015.
LayerPtr batch_norm(const Scope& scope, const BatchNormOptions& options);

}  // namespace penstock::towers
