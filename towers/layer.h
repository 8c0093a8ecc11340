// The contract of a layer: a function of arrays and its derivative.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "towers/array.h"
#include "towers/variables.h"

namespace penstock::towers {

class Collective;
class Gpu;

/// What a layer may know of the step it takes part in. The same for all layers of a step.
struct Pass {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  int tower = 0;
  /// Rows that hold samples; those behind are padding and must influence nothing.
  std::int64_t valid_rows = 0;
  /// Row r is element first + r * stride of the step, whichever tower has it: keys random numbers.
  std::int64_t first = 0, stride = 1;
  /// What the tower computes with; null: the calling thread.
  Gpu* gpu = nullptr;
  /// The other towers, for layers that need them; null: there are none.
  Collective* others = nullptr;
};

/// One step in the middle of a model, on one tower: forward, then backward, by one thread at a
/// time. Returned arrays are the layer's and valid until its next call; what `forward` was given
/// must stay as it is until `backward` has returned. The outermost dimension is the batch's; it may
/// change from call to call. A wrong shape throws Error{invalid_argument} naming the layer.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual const Array& forward(const Array& in, const Pass& pass) = 0;
  /// Adds to the gradients of its variables, each of which it tells once it has (see Variable), and
  /// returns the gradient of what `forward` was given last; an
  /// empty array from a layer that was told that nobody asks for it.
  virtual const Array& backward(const Array& gradient, const Pass& pass) = 0;
};
using LayerPtr = std::unique_ptr<Layer>;

/// Layers one behind the other.
class Sequential final : public Layer {
 public:
  Sequential& add(LayerPtr layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }
  const Array& forward(const Array& in, const Pass& pass) override;
  const Array& backward(const Array& gradient, const Pass& pass) override;

 private:
  std::vector<LayerPtr> layers_;
};

/// Throws Error{invalid_argument}: "<layer>: expected <expected>, got <shape>".
[[noreturn]] void wrong_shape(const std::string& layer, const std::string& expected,
                              const Shape& shape);

}  // namespace penstock::towers
