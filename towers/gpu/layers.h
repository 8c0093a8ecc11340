// Layers on GPUs. The headers in towers/layers describe the layers; each layer's function there
// calls its counterpart here if the scope has a Gpu.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <penstock/towers/layer.h>
#include <penstock/towers/layers/batch_norm.h>
#include <penstock/towers/layers/conv2d.h>
#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/lrn.h>
#include <penstock/towers/layers/pool.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// Makes a convolution with cuDNN. Uneven padding is done by a copy.
LayerPtr gpu_conv2d(Gpu& gpu, const Scope& scope, const Conv2dOptions& options);
/// Makes a dense layer with cuBLASLt.
LayerPtr gpu_dense(Gpu& gpu, const Scope& scope, const DenseOptions& options);
/// Makes a batch normalisation with kernels of our own: cuDNN's are slow with channels last. The
/// sums of a synchronised one are exchanged through the host.
LayerPtr gpu_batch_norm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options);
/// Makes a residual block whose sum and relu are done by the body's last layer. Returns null, and
/// leaves the layers alone, unless the body and a shortcut's layers end with a batch normalisation
/// on this GPU without a relu.
LayerPtr gpu_residual(Gpu& gpu, LayerPtr& body, LayerPtr& shortcut);
/// Make a pooling: averages with cuDNN, maxima with kernels of our own.
LayerPtr gpu_pool(Gpu& gpu, std::string name, const PoolOptions& options);
LayerPtr gpu_global_average_pool(Gpu& gpu);
/// Makes a relu with cuDNN.
LayerPtr gpu_relu(Gpu& gpu);
// Layers with kernels of our own.
LayerPtr gpu_dropout(Gpu& gpu, std::uint64_t id, float rate);
LayerPtr gpu_lrn(Gpu& gpu, std::string name, const LrnOptions& options);
/// Computes out = a + b. REQUIRES: equal shapes.
void gpu_add(Gpu& gpu, const Array& a, const Array& b, Array& out);

/// Prepares the arrays of a loss: arrays that are not yet on the GPU are placed there, and
/// `results` becomes [rows,4] f64.
void begin_on(Gpu& gpu, std::int64_t rows, Array& results, std::initializer_list<Array*> others);

/// Calls `f(T())` for the type of activations: float or Bf16.
template <typename F>
void with_type(const Gpu& gpu, F&& f) {
  if (gpu.dtype() == DType::bf16) {
    std::forward<F>(f)(Bf16());
  } else {
    std::forward<F>(f)(float());
  }
}

}  // namespace penstock::towers
