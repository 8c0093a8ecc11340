#include <penstock/towers/layers/conv2d.h>

#include <array>
#include <optional>

#include <penstock/error.h>

#include "towers/gpu/descriptors.h"
#include "towers/gpu/layers.h"
#include "towers/gpu/layers/bias.h"

namespace penstock::towers {
namespace {

/// True for algorithms that round to the precision of tensor cores.
bool is_tensor_math(int math) {
  return math == Cudnn::kTensorMath || math == Cudnn::kTensorMathConverting;
}

/// One of a convolution's three products.
class Product {
 public:
  Product(const Gpu& gpu, Cudnn::Choose choose, Cudnn::Room room, Cudnn::Convolve convolve)
      : gpu_(gpu),
        choose_(choose),
        room_of_(room),
        run_(convolve),
        form_(gpu, gpu.cudnn().create_convolution, gpu.cudnn().destroy_convolution) {}

  /// Selects the first algorithm that cuDNN expects to be fast and that the tower may use.
  void prepare(int padding, int stride, void* a, void* b, void* c) {
    const Cudnn& cudnn = gpu_.cudnn();
    gpu_.check_cudnn(cudnn.set_convolution(form_.get(), padding, padding, stride, stride, 1, 1,
                                           Cudnn::kCrossCorrelation, Cudnn::kFloat));
    const Precision precision = gpu_.precision();
    gpu_.check_cudnn(cudnn.set_math(form_.get(), precision == Precision::f32 ? Cudnn::kFmaMath
                                                 : precision == Precision::tf32
                                                     ? Cudnn::kDefaultMath
                                                     : Cudnn::kTensorMath));
    constexpr std::size_t kMostRoom = std::size_t{1} << 30;
    std::array<Cudnn::Algorithm, 8> known{};
    int count = 0;
    gpu_.check_cudnn(choose_(gpu_.cudnn_handle(), a, b, form_.get(), c,
                             static_cast<int>(known.size()), &count, known.data()));
    for (const Cudnn::Algorithm& one : std::span(known).first(static_cast<std::size_t>(count))) {
      if (one.status != 0 || one.memory > kMostRoom) continue;
      if (gpu_.deterministic() && one.determinism != Cudnn::kDeterministic) continue;
      if (precision == Precision::f32 && is_tensor_math(one.math)) continue;
      algorithm_ = one.algorithm;
      // f32 must stay exact whatever the heuristic returns, and its default math allows tf32.
      if (precision != Precision::f32) gpu_.check_cudnn(cudnn.set_math(form_.get(), one.math));
      gpu_.check_cudnn(room_of_(gpu_.cudnn_handle(), a, b, form_.get(), c, algorithm_, &room_));
      return;
    }
    throw Error(ErrorCode::unavailable, "cuDNN has no algorithm for this convolution");
  }

  void run(Gpu& gpu, void* a_desc, const void* a, void* b_desc, const void* b, void* c_desc,
           void* c) const {
    Array& scratch = gpu.scratch(room_);
    gpu.check_cudnn(run_(gpu.cudnn_handle(), &kOne, a_desc, a, b_desc, b, form_.get(), algorithm_,
                         scratch.bytes(), room_, &kZero, c_desc, c));
  }

 private:
  const Gpu& gpu_;
  const Cudnn::Choose choose_;
  const Cudnn::Room room_of_;
  const Cudnn::Convolve run_;
  const Descriptor form_;
  int algorithm_ = 0;
  std::size_t room_ = 0;
};

class GpuConv2d final : public Layer {
 public:
  GpuConv2d(Gpu& gpu, const Scope& scope, const Conv2dOptions& options)
      : gpu_(gpu),
        name_(scope.prefix() + "conv2d"),
        options_(options),
        weights_(scope.get("weights", {options.out, options.in, options.kernel, options.kernel},
                           {options.initializer})),
        in_desc_(gpu),
        out_desc_(gpu),
        filter_desc_(gpu, gpu.cudnn().create_filter, gpu.cudnn().destroy_filter),
        forward_(gpu, gpu.cudnn().choose_forward, gpu.cudnn().room_forward, gpu.cudnn().forward),
        data_(gpu, gpu.cudnn().choose_data, gpu.cudnn().room_data, gpu.cudnn().data),
        filter_(gpu, gpu.cudnn().choose_filter, gpu.cudnn().room_filter, gpu.cudnn().filter),
        packed_(gpu.array()),
        packed_gradient_(gpu.array()),
        padded_(gpu.array()),
        padded_gradient_(gpu.array()),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    if (options.bias)
      bias_.emplace(gpu, scope.get("biases", {options.out}, {options.bias_initializer}));
    const Shape packed{options.out, options.kernel, options.kernel, options.in};
    packed_.resize(packed);
    packed_gradient_.resize(packed);
  }

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    gpu_.enter();
    if (!(in.shape() == in_shape_)) prepare(in.shape());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(PackWeightsPlan<T>{weights_.value.data(), packed_.as<T>(), options_.in, area()},
               static_cast<std::int64_t>(packed_.size()));
    });
    seen_ = &in;
    if (uneven()) {
      pad(in, padded_, true);
      seen_ = &padded_;
    }
    forward_.run(gpu_, in_desc_.get(), seen_->bytes(), filter_desc_.get(), packed_.bytes(),
                 out_desc_.get(), out_.bytes());
    if (bias_) bias_->add(out_);
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    gpu_.enter();
    filter_.run(gpu_, in_desc_.get(), seen_->bytes(), out_desc_.get(), gradient.bytes(),
                filter_desc_.get(), packed_gradient_.bytes());
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(UnpackWeightsPlan<T>{packed_gradient_.as<T>(), weights_.gradient.data(), options_.in,
                                    area(), weights_.accumulate()},
               static_cast<std::int64_t>(weights_.gradient.size()));
    });
    weights_.added();
    if (bias_) bias_->backward(gradient);
    if (!options_.input_gradient) return nothing_;
    Array& to = uneven() ? padded_gradient_ : in_gradient_;
    to.resize(seen_->shape());
    data_.run(gpu_, filter_desc_.get(), packed_.bytes(), out_desc_.get(), gradient.bytes(),
              in_desc_.get(), to.bytes());
    if (uneven()) {
      in_gradient_.resize(in_shape_);
      pad(padded_gradient_, in_gradient_, false);
    }
    return in_gradient_;
  }

 private:
  bool uneven() const { return options_.padding.low != options_.padding.high; }
  std::int64_t area() const { return options_.kernel * options_.kernel; }

  void pad(const Array& from, Array& to, bool into) {
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(PadPlan<T>{from.as<T>(), to.as<T>(), in_shape_[1], in_shape_[2], in_shape_[3],
                          options_.padding.low, padded_.dim(1), padded_.dim(2), into, 0},
               static_cast<std::int64_t>(to.size()));
    });
  }

  void prepare(const Shape& in) {
    const Shape out = convolved(name_, in, options_);
    Shape seen = in;
    int padding = static_cast<int>(options_.padding.low);
    if (uneven()) {
      const std::int64_t more = options_.padding.low + options_.padding.high;
      seen = {in[0], in[1] + more, in[2] + more, in[3]};
      padding = 0;
      padded_.resize(seen);
    }
    describe(gpu_, in_desc_, seen);
    describe(gpu_, out_desc_, out);
    const auto kernel = static_cast<int>(options_.kernel);
    gpu_.check_cudnn(gpu_.cudnn().set_filter(filter_desc_.get(), cudnn_type(gpu_), Cudnn::kNhwc,
                                             static_cast<int>(options_.out),
                                             static_cast<int>(options_.in), kernel, kernel));
    const auto stride = static_cast<int>(options_.stride);
    forward_.prepare(padding, stride, in_desc_.get(), filter_desc_.get(), out_desc_.get());
    filter_.prepare(padding, stride, in_desc_.get(), out_desc_.get(), filter_desc_.get());
    if (options_.input_gradient)
      data_.prepare(padding, stride, filter_desc_.get(), out_desc_.get(), in_desc_.get());
    in_shape_ = in;
    out_.resize(out);
  }

  Gpu& gpu_;
  const std::string name_;
  const Conv2dOptions options_;
  Variable& weights_;
  std::optional<GpuBias> bias_;

  const TensorDescriptor in_desc_, out_desc_;
  const Descriptor filter_desc_;
  Product forward_, data_, filter_;
  Shape in_shape_;
  const Array* seen_ = nullptr;  // the convolved array: the input, or a padded copy
  Array packed_, packed_gradient_, padded_, padded_gradient_;
  Array out_, in_gradient_, nothing_;
};

}  // namespace

LayerPtr gpu_conv2d(Gpu& gpu, const Scope& scope, const Conv2dOptions& options) {
  return std::make_unique<GpuConv2d>(gpu, scope, options);
}

}  // namespace penstock::towers
