// The contract of a layer: a function of arrays and its derivative.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <penstock/towers/array.h>
#include <penstock/towers/variables.h>

namespace penstock::towers {

class Collective;
class Gpu;

/// The facts that a layer may know of its step. They are the same for all layers of a step.
struct Pass {
  bool training = false;   ///< false: evaluation or prediction
  std::uint64_t seed = 0;  ///< of the run
  std::uint64_t step = 0;  ///< updates made before it
  int tower = 0;           ///< of the job, from 0
  /// Rows that hold samples. The rows after them are padding and must influence nothing.
  std::int64_t valid_rows = 0;
  /// Row r is element first + r * stride of the step, on whichever tower it lies. This number keys
  /// random numbers.
  std::int64_t first = 0, stride = 1;
  /// The GPU that the tower computes with; null: the calling thread computes.
  Gpu* gpu = nullptr;
  /// The other towers, for layers that need them; null: there are none.
  Collective* others = nullptr;
};

/// One step in the middle of a model, on one tower. One thread at a time calls forward, then
/// backward. Returned arrays belong to the layer and are valid until its next call. The input of
/// `forward` must not change until `backward` has returned. The outermost dimension is the batch's,
/// which may change from call to call. A wrong shape throws Error{invalid_argument} naming the
/// layer.
class Layer {
 public:
  virtual ~Layer() = default;
  /// Returns the output for `in`.
  virtual const Array& forward(const Array& in, const Pass& pass) = 0;
  /// Adds to the gradients of its variables, and calls `added` of each (see Variable). Returns the
  /// gradient of the last input of `forward`. A layer that was told that this gradient is not
  /// needed returns an empty array.
  virtual const Array& backward(const Array& gradient, const Pass& pass) = 0;
};
/// The owner of a layer.
using LayerPtr = std::unique_ptr<Layer>;

/// Layers one after the other.
class Sequential final : public Layer {
 public:
  /// Appends a layer.
  Sequential& add(LayerPtr layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }
  /// Returns the last layer; null: there is none.
  Layer* last() const noexcept { return layers_.empty() ? nullptr : layers_.back().get(); }
  const Array& forward(const Array& in, const Pass& pass) override;
  const Array& backward(const Array& gradient, const Pass& pass) override;

 private:
  std::vector<LayerPtr> layers_;
};

/// Throws Error{invalid_argument}: "<layer>: expected <expected>, got <shape>".
[[noreturn]] void wrong_shape(const std::string& layer, const std::string& expected,
                              const Shape& shape);

}  // namespace penstock::towers
