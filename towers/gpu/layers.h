// The forms of layers on GPUs: as the headers in towers/layers say, with a tower's Gpu. Each
// layer's function calls its own where the scope has one.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "towers/gpu/gpu.h"
#include "towers/layer.h"
#include "towers/layers/batch_norm.h"
#include "towers/layers/conv2d.h"
#include "towers/layers/dense.h"
#include "towers/layers/lrn.h"
#include "towers/layers/pool.h"

namespace penstock::towers {

/// cuDNN; uneven padding by a copy.
LayerPtr gpu_conv2d(Gpu& gpu, const Scope& scope, const Conv2dOptions& options);
/// cuBLASLt.
LayerPtr gpu_dense(Gpu& gpu, const Scope& scope, const DenseOptions& options);
/// cuDNN; synchronised by kernels of our own, whose sums are exchanged through the host.
LayerPtr gpu_batch_norm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options);
/// cuDNN. Uneven padding by a copy, for maxima only; which of equal ones gets the gradient is the
/// library's to say, and the same in every run.
LayerPtr gpu_pool(Gpu& gpu, std::string name, const PoolOptions& options);
LayerPtr gpu_global_average_pool(Gpu& gpu);
/// cuDNN.
LayerPtr gpu_relu(Gpu& gpu);
// Kernels of our own.
LayerPtr gpu_dropout(Gpu& gpu, std::uint64_t id, float rate);
LayerPtr gpu_lrn(Gpu& gpu, std::string name, const LrnOptions& options);
/// out = a + b. REQUIRES: equal shapes.
void gpu_add(Gpu& gpu, const Array& a, const Array& b, Array& out);

/// For losses: arrays that are not yet the GPU's become it, and `results` gets [rows,4] f64.
void begin_on(Gpu& gpu, std::int64_t rows, Array& results, std::initializer_list<Array*> others);

/// `f(T())` for the type that activations have: float or Bf16.
template <typename F>
void with_type(const Gpu& gpu, F&& f) {
  if (gpu.dtype() == DType::bf16) {
    std::forward<F>(f)(Bf16());
  } else {
    std::forward<F>(f)(float());
  }
}

}  // namespace penstock::towers
