#include <penstock/towers/layers/dropout.h>

#include <cmath>
#include <string>

#include <penstock/error.h>
#include <penstock/rng.h>

#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

class Dropout final : public Layer {
 public:
  Dropout(std::uint64_t id, float rate) : id_(id), rate_(rate) {}

  const Array& forward(const Array& in, const Pass& pass) override {
    active_ = pass.training && rate_ > 0;
    if (!active_) return in;
    out_.resize(in.shape());
    factor_.resize(in.shape());
    const std::int64_t width = in.row_size();
    for (std::int64_t row = 0; row < in.dim(0); ++row)
      draw(factor_.data() + row * width, width, pass, pass.first + row * pass.stride);
    for (std::size_t i = 0; i < in.size(); ++i) out_.data()[i] = in.data()[i] * factor_.data()[i];
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    if (!active_) return gradient;
    in_gradient_.resize(gradient.shape());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      in_gradient_.data()[i] = gradient.data()[i] * factor_.data()[i];
    return in_gradient_;
  }

 private:
  void draw(float* factors, std::int64_t width, const Pass& pass, std::int64_t element) const {
    const std::uint64_t key = mix_path(mix64(pass.seed) ^ id_, pass.step);
    const auto number = static_cast<std::uint64_t>(element);
    const auto limit = static_cast<std::uint32_t>(std::lround(rate_ * 4294967295.0));
    for (std::int64_t at = 0; at < width; at += 4) {
      const auto bits =
          philox4x32({static_cast<std::uint32_t>(at / 4), 0, static_cast<std::uint32_t>(number),
                      static_cast<std::uint32_t>(number >> 32)},
                     {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
      for (std::int64_t i = at; i < std::min(width, at + 4); ++i)
        factors[i] = bits[static_cast<std::size_t>(i - at)] < limit ? 0 : 1 / (1 - rate_);
    }
  }

  const std::uint64_t id_;
  const float rate_;
  bool active_ = false;
  Array out_, factor_, in_gradient_;
};

}  // namespace

LayerPtr dropout(const Scope& scope, float rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error(
        ErrorCode::invalid_argument,
        scope.prefix() + "dropout: the rate must be in [0, 1), not " + std::to_string(rate));
  std::uint64_t id = 0;
  for (const char c : scope.prefix() + "dropout") id = mix_path(id, static_cast<unsigned char>(c));
  if (Gpu* gpu = scope.gpu()) return gpu_dropout(*gpu, id, rate);
  return std::make_unique<Dropout>(id, rate);
}

}  // namespace penstock::towers
