#include <penstock/towers/layers/conv2d.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "towers/gpu/layers.h"
#include "towers/onednn.h"

namespace penstock::towers {
namespace {

using MemoryDesc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;

class Conv2d final : public Layer {
 public:
  Conv2d(const Scope& scope, const Conv2dOptions& options)
      : name_(scope.prefix() + "conv2d"),
        options_(options),
        weights_(scope.get("weights", {options.out, options.in, options.kernel, options.kernel},
                           {options.initializer})),
        biases_(options.bias ? &scope.get("biases", {options.out}, {options.bias_initializer})
                             : nullptr) {}

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (!(in.shape() == in_shape_)) prepare(in.shape());
    in_ = &in;
    const dnnl::memory weights = blocked(forward_->weights_desc(), weights_.value);
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory_of(forward_->src_desc(), in)},
        {DNNL_ARG_WEIGHTS, weights},
        {DNNL_ARG_DST, memory_of(forward_->dst_desc(), out_)}};
    if (biases_ != nullptr)
      arguments.emplace(DNNL_ARG_BIAS, memory_of(forward_->bias_desc(), biases_->value));
    run(forward_run_, std::move(arguments), forward_scratch_);
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    add_variables_gradient(gradient);
    if (!options_.input_gradient) return nothing_;
    in_gradient_.resize(in_shape_);
    run(data_run_,
        {{DNNL_ARG_DIFF_DST, memory_of(data_->diff_dst_desc(), gradient)},
         {DNNL_ARG_WEIGHTS, blocked(data_->weights_desc(), weights_.value)},
         {DNNL_ARG_DIFF_SRC, memory_of(data_->diff_src_desc(), in_gradient_)}},
        data_scratch_);
    return in_gradient_;
  }

 private:
  void prepare(const Shape& in) {
    const Shape out = convolved(name_, in, options_);
    const MemoryDesc source = channels_last(in);
    const MemoryDesc target = channels_last(out);
    const MemoryDesc any(dims(), kF32, Tag::any);
    const MemoryDesc bias =
        biases_ != nullptr ? MemoryDesc({options_.out}, kF32, Tag::a) : MemoryDesc();
    const dnnl::memory::dims strides{options_.stride, options_.stride};
    const dnnl::memory::dims low{options_.padding.low, options_.padding.low};
    const dnnl::memory::dims high{options_.padding.high, options_.padding.high};
    check_room_for_code();
    const auto method = dnnl::algorithm::convolution_direct;
    // By default oneDNN keeps scratch memory for the thread that makes a primitive. But a tower's
    // thread may differ from step to step.
    dnnl::primitive_attr own_scratch;
    own_scratch.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    forward_.emplace(dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, method,
                                                     source, any, bias, target, strides, low, high),
                     own_scratch, cpu_engine());
    forward_run_ = dnnl::convolution_forward(*forward_);
    forward_scratch_ = scratch_for(forward_->scratchpad_desc());
    sums_.emplace(dnnl::convolution_backward_weights::desc(method, source, any, bias, target,
                                                           strides, low, high),
                  own_scratch, cpu_engine(), *forward_);
    sums_run_ = dnnl::convolution_backward_weights(*sums_);
    sums_scratch_ = scratch_for(sums_->scratchpad_desc());
    if (options_.input_gradient) {
      data_.emplace(
          dnnl::convolution_backward_data::desc(method, source, any, target, strides, low, high),
          own_scratch, cpu_engine(), *forward_);
      data_run_ = dnnl::convolution_backward_data(*data_);
      data_scratch_ = scratch_for(data_->scratchpad_desc());
    }
    in_shape_ = in;
    out_.resize(out);
  }

  void add_variables_gradient(const Array& gradient) {
    dnnl::memory sums(sums_->diff_weights_desc(), cpu_engine());
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory_of(sums_->src_desc(), *in_)},
        {DNNL_ARG_DIFF_DST, memory_of(sums_->diff_dst_desc(), gradient)},
        {DNNL_ARG_DIFF_WEIGHTS, sums}};
    Array bias_sums;
    if (biases_ != nullptr) {
      bias_sums.resize({options_.out});
      arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of(sums_->diff_bias_desc(), bias_sums));
    }
    run(sums_run_, std::move(arguments), sums_scratch_);
    dnnl::primitive_attr add;
    if (weights_.accumulate() != 0) {
      dnnl::post_ops sum;
      sum.append_sum();
      add.set_post_ops(sum);
    }
    dnnl::memory total = memory_of(plain(), weights_.gradient);
    dnnl::reorder(sums, total, add).execute(cpu_stream(), sums, total);
    cpu_stream().wait();
    weights_.added();
    if (biases_ == nullptr) return;
    const float keep = biases_->accumulate();
    std::ranges::transform(bias_sums.values(), biases_->gradient.values(), biases_->gradient.data(),
                           [keep](float sum, float old) { return keep == 0 ? sum : old + sum; });
    biases_->added();
  }

  dnnl::memory::dims dims() const {
    return {options_.out, options_.in, options_.kernel, options_.kernel};
  }
  MemoryDesc plain() const { return {dims(), kF32, Tag::oihw}; }

  /// Returns the values in the primitive's preferred layout.
  dnnl::memory blocked(const MemoryDesc& desc, const Array& values) const {
    dnnl::memory from = memory_of(plain(), values);
    if (desc == plain()) return from;
    dnnl::memory to(desc, cpu_engine());
    dnnl::reorder(from, to).execute(cpu_stream(), from, to);
    return to;
  }

  /// In oneDNN 2.6 the last vector of a copy may exceed the requested memory by up to 64 bytes.
  static dnnl::memory scratch_for(const MemoryDesc& asked) {
    constexpr dnnl::memory::dim kSlack = 4096;
    const auto bytes = static_cast<dnnl::memory::dim>(asked.get_size()) + kSlack;
    return {MemoryDesc({bytes}, dnnl::memory::data_type::u8, Tag::a), cpu_engine()};
  }

  static void run(const dnnl::primitive& primitive, std::unordered_map<int, dnnl::memory> arguments,
                  const dnnl::memory& scratch) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch);
    primitive.execute(cpu_stream(), arguments);
    cpu_stream().wait();
  }

  const std::string name_;
  const Conv2dOptions options_;
  Variable& weights_;
  Variable* const biases_;

  Shape in_shape_;
  std::optional<dnnl::convolution_forward::primitive_desc> forward_;
  std::optional<dnnl::convolution_backward_weights::primitive_desc> sums_;
  std::optional<dnnl::convolution_backward_data::primitive_desc> data_;
  dnnl::primitive forward_run_, sums_run_, data_run_;
  dnnl::memory forward_scratch_, sums_scratch_, data_scratch_;
  const Array* in_ = nullptr;
  Array out_, in_gradient_, nothing_;
};

}  // namespace

Padding Padding::same(std::int64_t extent, std::int64_t kernel, std::int64_t stride) {
  const std::int64_t positions = (extent + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>(0, (positions - 1) * stride + kernel - extent);
  return {total / 2, total - total / 2};
}

Shape convolved(const std::string& layer, const Shape& in, const Conv2dOptions& options) {
  if (in.rank() != 4 || in[3] != options.in)
    wrong_shape(layer, "[n,h,w," + std::to_string(options.in) + "]", in);
  const auto extent = [&](std::int64_t size) {
    return (size + options.padding.low + options.padding.high - options.kernel) / options.stride +
           1;
  };
  const Shape out{in[0], extent(in[1]), extent(in[2]), options.out};
  if (out[1] < 1 || out[2] < 1) wrong_shape(layer, "an image as large as the kernel", in);
  return out;
}

LayerPtr conv2d(const Scope& scope, const Conv2dOptions& options) {
  if (Gpu* gpu = scope.gpu()) return gpu_conv2d(*gpu, scope, options);
  return std::make_unique<Conv2d>(scope, options);
}

}  // namespace penstock::towers
