// Weight decay as a part of the loss.
#pragma once

#include <utility>
#include <vector>

#include <penstock/towers/layer.h>

namespace penstock::towers {

/// The sum of weight / 2 * |variable|² over variables, as in tf.nn.l2_loss.
class L2 {
 public:
  /// Adds a variable, with its weight.
  void add(Variable& variable, float weight) { terms_.emplace_back(&variable, weight); }
  /// Returns the sum. On a GPU it is added to Gpu::result, and 0 is returned.
  double forward(const Pass& pass);
  /// Adds weight * variable to each gradient.
  void backward(const Pass& pass) const;

 private:
  std::vector<std::pair<Variable*, float>> terms_;
};

}  // namespace penstock::towers
