// Layers whose forward and backward passes are kernels of our own.
#include <cmath>
#include <string>
#include <utility>

#include <penstock/rng.h>

#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

std::int64_t count_of(const Array& array) {
  return static_cast<std::int64_t>(array.size());
}

class GpuDropout final : public Layer {
 public:
  GpuDropout(Gpu& gpu, std::uint64_t id, float rate)
      : gpu_(gpu), id_(id), rate_(rate), out_(gpu.array()), in_gradient_(gpu.array()) {}
  const Array& forward(const Array& in, const Pass& pass) override {
    active_ = pass.training && rate_ > 0;
    if (!active_) return in;
    apply(in, out_, pass);
    return out_;
  }
  const Array& backward(const Array& gradient, const Pass& pass) override {
    if (!active_) return gradient;
    apply(gradient, in_gradient_, pass);
    return in_gradient_;
  }

 private:
  void apply(const Array& from, Array& to, const Pass& pass) {
    to.resize(from.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(DropoutPlan<T>{from.as<T>(), to.as<T>(), from.row_size(), pass.first, pass.stride,
                              mix_path(mix64(pass.seed) ^ id_, pass.step),
                              static_cast<std::uint32_t>(std::lround(rate_ * 4294967295.0)),
                              1 / (1 - rate_)},
               count_of(from));
    });
  }

  Gpu& gpu_;
  const std::uint64_t id_;
  const float rate_;
  bool active_ = false;
  Array out_, in_gradient_;
};

class GpuLrn final : public Layer {
 public:
  GpuLrn(Gpu& gpu, std::string name, const LrnOptions& options)
      : gpu_(gpu),
        name_(std::move(name)),
        options_(options),
        scale_(gpu.array(DType::f32)),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {}
  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (in.shape().rank() < 2) wrong_shape(name_, "[n, ..., c]", in.shape());
    in_ = &in;
    out_.resize(in.shape());
    scale_.resize(in.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(LrnPlan<T>{in.as<T>(), out_.as<T>(), scale_.data(), channels(), options_.radius,
                          options_.bias, options_.alpha, options_.beta},
               count_of(in));
    });
    return out_;
  }
  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(out_.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(LrnBackPlan<T>{in_->as<T>(), gradient.as<T>(), scale_.data(), in_gradient_.as<T>(),
                              channels(), options_.radius, options_.alpha, options_.beta},
               count_of(out_));
    });
    return in_gradient_;
  }

 private:
  std::int64_t channels() const { return in_->dim(in_->shape().rank() - 1); }

  Gpu& gpu_;
  const std::string name_;
  const LrnOptions options_;
  const Array* in_ = nullptr;
  Array scale_, out_, in_gradient_;
};

}  // namespace

LayerPtr gpu_dropout(Gpu& gpu, std::uint64_t id, float rate) {
  return std::make_unique<GpuDropout>(gpu, id, rate);
}
LayerPtr gpu_lrn(Gpu& gpu, std::string name, const LrnOptions& options) {
  return std::make_unique<GpuLrn>(gpu, std::move(name), options);
}

void gpu_add(Gpu& gpu, const Array& a, const Array& b, Array& out) {
  out.resize(a.shape());
  with_type(gpu, [&]<typename T>(T) {
    gpu.run(SumOfTwoPlan<T>{a.as<T>(), b.as<T>(), out.as<T>(), count_of(a)},
            (count_of(a) + kWide<T> - 1) / kWide<T>);
  });
}

void begin_on(Gpu& gpu, std::int64_t rows, Array& results, std::initializer_list<Array*> others) {
  if (results.dtype() != DType::f64) {
    results = gpu.array(DType::f64);
    for (Array* other : others) *other = gpu.array();
  }
  results.resize({rows, 4});
}

}  // namespace penstock::towers
