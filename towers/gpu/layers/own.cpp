// Layers that are a kernel of ours each way.
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

class GpuRelu final : public Layer {
 public:
  explicit GpuRelu(Gpu& gpu) : gpu_(gpu), out_(gpu.array()), in_gradient_(gpu.array()) {}
  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    out_.resize(in.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(ReluPlan<T>{in.as<T>(), out_.as<T>()}, count_of(in));
    });
    return out_;
  }
  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(out_.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(ReluBackPlan<T>{out_.as<T>(), gradient.as<T>(), in_gradient_.as<T>()},
               count_of(out_));
    });
    return in_gradient_;
  }

 private:
  Gpu& gpu_;
  Array out_, in_gradient_;
};

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

/// Not cuDNN's: that takes no uneven padding, and does not say which of equal maxima gets the
/// gradient.
class GpuPool final : public Layer {
 public:
  GpuPool(Gpu& gpu, std::string name, const PoolOptions& options)
      : gpu_(gpu),
        name_(std::move(name)),
        options_(options),
        chosen_(gpu.array(DType::i32)),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {}
  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    const Shape out = pooled(name_, in.shape(), options_);
    in_shape_ = in.shape();
    windows_ = {in.dim(1), in.dim(2),       in.dim(3),       out[1],
                out[2],    options_.kernel, options_.stride, options_.padding.low};
    out_.resize(out);
    if (options_.kind == Pooling::max) chosen_.resize(out);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(PoolPlan<T>{in.as<T>(), out_.as<T>(), chosen(), windows_}, count_of(out_));
    });
    return out_;
  }
  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(in_shape_);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(PoolBackPlan<T>{gradient.as<T>(), in_gradient_.as<T>(), chosen(), windows_},
               count_of(in_gradient_));
    });
    return in_gradient_;
  }

 private:
  std::int32_t* chosen() {
    return options_.kind == Pooling::max ? chosen_.as<std::int32_t>() : nullptr;
  }

  Gpu& gpu_;
  const std::string name_;
  const PoolOptions options_;
  Shape in_shape_;
  Windows windows_{};
  Array chosen_, out_, in_gradient_;
};

class GpuGlobalAveragePool final : public Layer {
 public:
  explicit GpuGlobalAveragePool(Gpu& gpu)
      : gpu_(gpu), out_(gpu.array()), in_gradient_(gpu.array()) {}
  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (in.shape().rank() != 4) wrong_shape("global_average_pool", "[n,h,w,c]", in.shape());
    in_shape_ = in.shape();
    out_.resize({in.dim(0), in.dim(3)});
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(MeanPixelPlan<T>{in.as<T>(), out_.as<T>(), in.dim(1) * in.dim(2), in.dim(3)},
               count_of(out_));
    });
    return out_;
  }
  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(in_shape_);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(MeanPixelBackPlan<T>{gradient.as<T>(), in_gradient_.as<T>(),
                                    in_shape_[1] * in_shape_[2], in_shape_[3]},
               count_of(in_gradient_));
    });
    return in_gradient_;
  }

 private:
  Gpu& gpu_;
  Shape in_shape_;
  Array out_, in_gradient_;
};

}  // namespace

LayerPtr gpu_relu(Gpu& gpu) {
  return std::make_unique<GpuRelu>(gpu);
}
LayerPtr gpu_dropout(Gpu& gpu, std::uint64_t id, float rate) {
  return std::make_unique<GpuDropout>(gpu, id, rate);
}
LayerPtr gpu_lrn(Gpu& gpu, std::string name, const LrnOptions& options) {
  return std::make_unique<GpuLrn>(gpu, std::move(name), options);
}
LayerPtr gpu_pool(Gpu& gpu, std::string name, const PoolOptions& options) {
  return std::make_unique<GpuPool>(gpu, std::move(name), options);
}
LayerPtr gpu_global_average_pool(Gpu& gpu) {
  return std::make_unique<GpuGlobalAveragePool>(gpu);
}

void gpu_add(Gpu& gpu, const Array& a, const Array& b, Array& out) {
  out.resize(a.shape());
  with_type(gpu, [&]<typename T>(T) {
    gpu.run(SumOfTwoPlan<T>{a.as<T>(), b.as<T>(), out.as<T>()}, count_of(a));
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
