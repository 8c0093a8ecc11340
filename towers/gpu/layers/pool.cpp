#include <penstock/towers/layers/pool.h>

#include <limits>
#include <string>
#include <utility>

#include <penstock/error.h>

#include "towers/gpu/descriptors.h"
#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

/// Maxima, by kernels of our own: cuDNN's gradient adds with atomics.
class GpuMaxPool final : public Layer {
 public:
  GpuMaxPool(Gpu& gpu, std::string name, const PoolOptions& options)
      : name_(std::move(name)),
        gpu_(gpu),
        options_(options),
        places_(gpu.array(DType::u16)),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    if (options.kernel > kMostKernel)
      throw Error(ErrorCode::invalid_argument, name_ + ": windows on a GPU have at most " +
                                                   std::to_string(kMostKernel) + " pixels a side");
  }

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (!(in.shape() == in_shape_)) prepare(in.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(MaxPoolPlan<T>{in.as<T>(), out_.as<T>(), places_.as<std::uint16_t>(), windows_},
               out_.dim(0) * out_.dim(1));
    });
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(in_shape_);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(MaxPoolBackPlan<T>{gradient.as<T>(), places_.as<std::uint16_t>(),
                                  in_gradient_.as<T>(), windows_},
               in_shape_[0] * in_shape_[1]);
    });
    return in_gradient_;
  }

 private:
  static constexpr std::int64_t kMostKernel = 255;  // places have 16 bits

  void prepare(const Shape& in) {
    const Shape out = pooled(name_, in, options_);
    if (in.volume() / in[0] > std::numeric_limits<std::int32_t>::max())
      wrong_shape(name_, "images of less than 2^31 values", in);
    const auto small = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    windows_ = {
        small(in[1]),  small(in[2]),           small(in[3]),           small(out[1]),
        small(out[2]), small(options_.kernel), small(options_.stride), small(options_.padding.low)};
    in_shape_ = in;
    out_.resize(out);
    places_.resize(out);
  }

  const std::string name_;
  Gpu& gpu_;
  const PoolOptions options_;
  Windows windows_{};
  Shape in_shape_;
  Array places_, out_, in_gradient_;
};

/// Averages, by cuDNN.
class GpuAveragePool : public Layer {
 public:
  GpuAveragePool(Gpu& gpu, std::string name, const PoolOptions& options)
      : name_(std::move(name)),
        gpu_(gpu),
        options_(options),
        form_(gpu, gpu.cudnn().create_pooling, gpu.cudnn().destroy_pooling),
        in_desc_(gpu),
        out_desc_(gpu),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    if (options.padding.low != options.padding.high)
      throw Error(ErrorCode::invalid_argument,
                  name_ + ": averages on a GPU take the same padding on both sides");
  }

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    gpu_.enter();
    if (!(in.shape() == in_shape_)) prepare(in.shape());
    in_ = &in;
    gpu_.check_cudnn(gpu_.cudnn().pool(gpu_.cudnn_handle(), form_.get(), &kOne, in_desc_.get(),
                                       in.bytes(), &kZero, out_desc_.get(), out_.bytes()));
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    gpu_.enter();
    in_gradient_.resize(in_shape_);
    gpu_.check_cudnn(gpu_.cudnn().pool_back(gpu_.cudnn_handle(), form_.get(), &kOne,
                                            out_desc_.get(), out_.bytes(), out_desc_.get(),
                                            gradient.bytes(), in_desc_.get(), in_->bytes(), &kZero,
                                            in_desc_.get(), in_gradient_.bytes()));
    return in_gradient_;
  }

 protected:
  struct Window {
    std::int64_t height, width, stride;
    Shape out;
  };
  virtual Window window(const Shape& in) const {
    return {options_.kernel, options_.kernel, options_.stride, pooled(name_, in, options_)};
  }
  const std::string name_;

 private:
  void prepare(const Shape& in) {
    const Window window = this->window(in);
    const auto padding = static_cast<int>(options_.padding.low);
    const auto stride = static_cast<int>(window.stride);
    gpu_.check_cudnn(gpu_.cudnn().set_pooling(
        form_.get(), Cudnn::kAverage, Cudnn::kPropagateNan, static_cast<int>(window.height),
        static_cast<int>(window.width), padding, padding, stride, stride));
    describe(gpu_, in_desc_, in);
    describe(gpu_, out_desc_, window.out);
    in_shape_ = in;
    out_.resize(window.out);
  }

  Gpu& gpu_;
  const PoolOptions options_;
  const Descriptor form_;
  const TensorDescriptor in_desc_, out_desc_;
  Shape in_shape_;
  const Array* in_ = nullptr;
  Array out_, in_gradient_;
};

/// Pools over a single window, the whole image.
class GpuGlobalAveragePool final : public GpuAveragePool {
 public:
  explicit GpuGlobalAveragePool(Gpu& gpu)
      : GpuAveragePool(gpu, "global_average_pool", {.kind = Pooling::average}) {}

 private:
  Window window(const Shape& in) const override {
    if (in.rank() != 4) wrong_shape(name_, "[n,h,w,c]", in);
    return {in[1], in[2], 1, {in[0], in[3]}};
  }
};

}  // namespace

LayerPtr gpu_pool(Gpu& gpu, std::string name, const PoolOptions& options) {
  if (options.kind == Pooling::max)
    return std::make_unique<GpuMaxPool>(gpu, std::move(name), options);
  return std::make_unique<GpuAveragePool>(gpu, std::move(name), options);
}

LayerPtr gpu_global_average_pool(Gpu& gpu) {
  return std::make_unique<GpuGlobalAveragePool>(gpu);
}

}  // namespace penstock::towers
