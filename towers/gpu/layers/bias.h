// What dense layers and convolutions on GPUs have in common.
#pragma once

#include "towers/gpu/descriptors.h"
#include "towers/variables.h"

namespace penstock::towers {

/// Adds a bias to each channel of activations [..., channels]: cuDNN. In bf16 the bias, and the
/// sums of its gradient, are rounded for that.
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
  Array rounded_;
};

}  // namespace penstock::towers
