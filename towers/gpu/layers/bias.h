// The bias of dense layers and convolutions on GPUs.
#pragma once

#include <penstock/towers/variables.h>

#include "towers/gpu/descriptors.h"

namespace penstock::towers {

/// A bias for each channel of activations [..., channels], added by cuDNN. In bf16, the bias is
/// rounded. We compute its gradient ourselves, because cuDNN has no such sum of bf16.
class GpuBias {
 public:
  GpuBias(Gpu& gpu, Variable& biases);
  void add(Array& activations);
  /// Adds to the bias's gradient.
  void backward(const Array& gradient);

 private:
  Gpu& gpu_;
  Variable& biases_;
  const TensorDescriptor one_, all_;
  Array rounded_, totals_;
};

}  // namespace penstock::towers
