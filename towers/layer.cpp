#include <penstock/towers/layer.h>

#include <penstock/error.h>

namespace penstock::towers {

const Array& Sequential::forward(const Array& in, const Pass& pass) {
  const Array* at = &in;
  for (const LayerPtr& layer : layers_) at = &layer->forward(*at, pass);
  return *at;
}

const Array& Sequential::backward(const Array& gradient, const Pass& pass) {
  const Array* at = &gradient;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer)
    at = &(*layer)->backward(*at, pass);
  return *at;
}

void wrong_shape(const std::string& layer, const std::string& expected, const Shape& shape) {
  throw Error(ErrorCode::invalid_argument,
              layer + ": expected " + expected + ", got " + shape.to_string());
}

}  // namespace penstock::towers
