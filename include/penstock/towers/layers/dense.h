// The fully connected layer.
#pragma once

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The options of a Dense layer.
struct DenseOptions {
  std::int64_t in = 0, out = 0;    ///< numbers in a row
  bool bias = true;                ///< adds a bias to each output
  Initializer initializer{};       ///< of the weights
  Initializer bias_initializer{};  ///< of the bias
  bool input_gradient = true;      ///< false for a model's first layer
};

/// Maps [n, ...] to [n,out]. All dimensions but the outermost are taken together as one dimension
/// of `in` values. Variables: weights [out,in], biases [out].
LayerPtr dense(const Scope& scope, const DenseOptions& options);

}  // namespace penstock::towers
