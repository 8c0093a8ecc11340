#include <penstock/towers/layers/pool.h>

#include <limits>

#include <penstock/error.h>

#include "towers/gpu/descriptors.h"
#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

class GpuPool : public Layer {
 public:
  GpuPool(Gpu& gpu, std::string name, const PoolOptions& options)
      : name_(std::move(name)),
        gpu_(gpu),
        options_(options),
        form_(gpu, gpu.cudnn().create_pooling, gpu.cudnn().destroy_pooling),
        in_desc_(gpu),
        out_desc_(gpu),
        padded_(gpu.array()),
        padded_gradient_(gpu.array()),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    if (uneven() && options.kind == Pooling::average)
      throw Error(ErrorCode::invalid_argument,
                  name_ + ": averages on a GPU take the same padding on both sides");
  }

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    gpu_.enter();
    if (!(in.shape() == in_shape_)) prepare(in.shape());
    seen_ = &in;
    if (uneven()) {
      pad(in, padded_, true);
      seen_ = &padded_;
    }
    gpu_.check_cudnn(gpu_.cudnn().pool(gpu_.cudnn_handle(), form_.get(), &kOne, in_desc_.get(),
                                       seen_->bytes(), &kZero, out_desc_.get(), out_.bytes()));
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    gpu_.enter();
    in_gradient_.resize(in_shape_);
    Array& to = uneven() ? padded_gradient_ : in_gradient_;
    to.resize(seen_->shape());
    gpu_.check_cudnn(gpu_.cudnn().pool_back(
        gpu_.cudnn_handle(), form_.get(), &kOne, out_desc_.get(), out_.bytes(), out_desc_.get(),
        gradient.bytes(), in_desc_.get(), seen_->bytes(), &kZero, in_desc_.get(), to.bytes()));
    if (uneven()) pad(padded_gradient_, in_gradient_, false);
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
  bool uneven() const { return options_.padding.low != options_.padding.high; }

  void prepare(const Shape& in) {
    const Window window = this->window(in);
    const std::int64_t more = uneven() ? options_.padding.low + options_.padding.high : 0;
    const Shape seen{in[0], in[1] + more, in[2] + more, in[3]};
    if (uneven()) padded_.resize(seen);
    const auto padding = static_cast<int>(uneven() ? 0 : options_.padding.low);
    const auto stride = static_cast<int>(window.stride);
    gpu_.check_cudnn(gpu_.cudnn().set_pooling(
        form_.get(), options_.kind == Pooling::max ? Cudnn::kMaximum : Cudnn::kAverage,
        Cudnn::kPropagateNan, static_cast<int>(window.height), static_cast<int>(window.width),
        padding, padding, stride, stride));
    describe(gpu_, in_desc_, seen);
    describe(gpu_, out_desc_, window.out);
    in_shape_ = in;
    out_.resize(window.out);
  }

  /// Copies into an image whose surrounding values are smaller than any other, or back.
  void pad(const Array& from, Array& to, bool into) {
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(PadPlan<T>{from.as<T>(), to.as<T>(), in_shape_[1], in_shape_[2], in_shape_[3],
                          options_.padding.low, padded_.dim(1), padded_.dim(2), into,
                          -std::numeric_limits<float>::infinity()},
               static_cast<std::int64_t>(to.size()));
    });
  }

  Gpu& gpu_;
  const PoolOptions options_;
  const Descriptor form_;
  const TensorDescriptor in_desc_, out_desc_;
  Shape in_shape_;
  const Array* seen_ = nullptr;  // the pooled array: the input, or a padded copy
  Array padded_, padded_gradient_, out_, in_gradient_;
};

/// Pools over a single window, the whole image.
class GpuGlobalAveragePool final : public GpuPool {
 public:
  explicit GpuGlobalAveragePool(Gpu& gpu)
      : GpuPool(gpu, "global_average_pool", {.kind = Pooling::average}) {}

 private:
  Window window(const Shape& in) const override {
    if (in.rank() != 4) wrong_shape(name_, "[n,h,w,c]", in);
    return {in[1], in[2], 1, {in[0], in[3]}};
  }
};

}  // namespace

LayerPtr gpu_pool(Gpu& gpu, std::string name, const PoolOptions& options) {
  return std::make_unique<GpuPool>(gpu, std::move(name), options);
}

LayerPtr gpu_global_average_pool(Gpu& gpu) {
  return std::make_unique<GpuGlobalAveragePool>(gpu);
}

}  // namespace penstock::towers
