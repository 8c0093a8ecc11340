#include <penstock/towers/layers/lrn.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

class Lrn final : public Layer {
 public:
  Lrn(std::string name, const LrnOptions& options) : name_(std::move(name)), options_(options) {}

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (in.shape().rank() < 2) wrong_shape(name_, "[n, ..., c]", in.shape());
    in_ = &in;
    const auto channels = static_cast<std::size_t>(in.dim(in.shape().rank() - 1));
    out_.resize(in.shape());
    scale_.resize(in.shape());
    row_.assign(channels + 2 * radius(), 0);
    for (std::size_t at = 0; at < in.size(); at += channels) {
      const float* from = in.data() + at;
      float* squares = row_.data() + radius();
      for (std::size_t c = 0; c < channels; ++c) squares[c] = from[c] * from[c];
      float* scale = scale_.data() + at;
      sum_window(scale, channels);
      for (std::size_t c = 0; c < channels; ++c)
        scale[c] = options_.bias + options_.alpha * scale[c];
      power(scale, from, out_.data() + at, channels);
    }
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    const auto channels = static_cast<std::size_t>(out_.dim(out_.shape().rank() - 1));
    in_gradient_.resize(out_.shape());
    row_.assign(channels + 2 * radius(), 0);
    std::vector<float> sums(channels);
    const float factor = 2 * options_.alpha * options_.beta;
    for (std::size_t at = 0; at < out_.size(); at += channels) {
      const float* scale = scale_.data() + at;
      float* products = row_.data() + radius();
      for (std::size_t c = 0; c < channels; ++c)
        products[c] = gradient.data()[at + c] * out_.data()[at + c] / scale[c];
      sum_window(sums.data(), channels);
      float* to = in_gradient_.data() + at;
      power(scale, gradient.data() + at, to, channels);
      for (std::size_t c = 0; c < channels; ++c) to[c] -= factor * in_->data()[at + c] * sums[c];
    }
    return in_gradient_;
  }

 private:
  std::size_t radius() const { return static_cast<std::size_t>(options_.radius); }

  /// Sums the row's values over the window of each. There are zeros around the row.
  void sum_window(float* sums, std::size_t channels) const {
    std::fill_n(sums, channels, 0.0F);
    for (std::size_t shift = 0; shift <= 2 * radius(); ++shift)
      for (std::size_t c = 0; c < channels; ++c) sums[c] += row_[c + shift];
  }

  /// Computes to = from * scale ^ -beta.
  void power(const float* scale, const float* from, float* to, std::size_t channels) const {
    if (options_.beta == 0.75F) {  // the usual value, which needs no logarithm
      for (std::size_t c = 0; c < channels; ++c)
        to[c] = from[c] / (std::sqrt(scale[c]) * std::sqrt(std::sqrt(scale[c])));
    } else {
      for (std::size_t c = 0; c < channels; ++c)
        to[c] = from[c] * std::pow(scale[c], -options_.beta);
    }
  }

  const std::string name_;
  const LrnOptions options_;
  const Array* in_ = nullptr;
  Array out_, scale_, in_gradient_;
  std::vector<float> row_;
};

}  // namespace

LayerPtr lrn(const Scope& scope, const LrnOptions& options) {
  if (Gpu* gpu = scope.gpu()) return gpu_lrn(*gpu, scope.prefix() + "lrn", options);
  return std::make_unique<Lrn>(scope.prefix() + "lrn", options);
}

}  // namespace penstock::towers
