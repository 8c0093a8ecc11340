#include <penstock/towers/layers/pool.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <penstock/error.h>

#include "towers/gpu/layers.h"
#include "towers/onednn.h"

namespace penstock::towers {
namespace {

class Pool final : public Layer {
 public:
  Pool(std::string name, const PoolOptions& options) : name_(std::move(name)), options_(options) {}

  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (!(in.shape() == in_shape_)) prepare(in.shape());
    winners_.clear();
    if (options_.kind == Pooling::max && has_nan(in)) {
      choose(in);
      return out_;
    }
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, memory_of(forward_->src_desc(), in)},
        {DNNL_ARG_DST, memory_of(forward_->dst_desc(), out_)}};
    if (options_.kind == Pooling::max) arguments.emplace(DNNL_ARG_WORKSPACE, chosen_);
    forward_run_.execute(cpu_stream(), arguments);
    cpu_stream().wait();
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    in_gradient_.resize(in_shape_);
    if (!winners_.empty()) {
      in_gradient_.fill(0);
      for (std::size_t i = 0; i < winners_.size(); ++i)
        in_gradient_.data()[winners_[i]] += gradient.data()[i];
      return in_gradient_;
    }
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_DIFF_DST, memory_of(backward_->diff_dst_desc(), gradient)},
        {DNNL_ARG_DIFF_SRC, memory_of(backward_->diff_src_desc(), in_gradient_)}};
    if (options_.kind == Pooling::max) arguments.emplace(DNNL_ARG_WORKSPACE, chosen_);
    backward_run_.execute(cpu_stream(), arguments);
    cpu_stream().wait();
    return in_gradient_;
  }

 private:
  static bool has_nan(const Array& array) {
    int found = 0;
    for (std::size_t i = 0; i < array.size(); ++i) found |= std::isnan(array.data()[i]) ? 1 : 0;
    return found != 0;
  }

  /// Finds maxima where there are NaN, which oneDNN may lose: NaN is above all, and the last of
  /// several gets the gradient, as in PyTorch.
  void choose(const Array& in) {
    const std::int64_t height = in.dim(1);
    const std::int64_t width = in.dim(2);
    const std::int64_t channels = in.dim(3);
    winners_.resize(out_.size());
    for (std::size_t to = 0; to < winners_.size(); ++to) {
      const auto at = static_cast<std::int64_t>(to);
      const std::int64_t left =
          at / channels % out_.dim(2) * options_.stride - options_.padding.low;
      const std::int64_t top =
          at / channels / out_.dim(2) % out_.dim(1) * options_.stride - options_.padding.low;
      const std::int64_t image = at / channels / out_.dim(2) / out_.dim(1) * height;
      std::int64_t best = -1;
      for (std::int64_t y = std::max<std::int64_t>(0, top);
           y < std::min(height, top + options_.kernel); ++y) {
        for (std::int64_t x = std::max<std::int64_t>(0, left);
             x < std::min(width, left + options_.kernel); ++x) {
          const std::int64_t from = ((image + y) * width + x) * channels + at % channels;
          if (best < 0 || in.data()[from] > in.data()[best] || std::isnan(in.data()[from]))
            best = from;
        }
      }
      winners_[to] = best;
      out_.data()[to] = in.data()[best];
    }
  }

  void prepare(const Shape& in) {
    const Shape out = pooled(name_, in, options_);
    const auto method = options_.kind == Pooling::max
                            ? dnnl::algorithm::pooling_max
                            : dnnl::algorithm::pooling_avg_exclude_padding;
    const dnnl::memory::dims strides{options_.stride, options_.stride};
    const dnnl::memory::dims kernel{options_.kernel, options_.kernel};
    const dnnl::memory::dims low{options_.padding.low, options_.padding.low};
    const dnnl::memory::dims high{options_.padding.high, options_.padding.high};
    check_room_for_code();
    forward_.emplace(
        dnnl::pooling_forward::desc(dnnl::prop_kind::forward_training, method, channels_last(in),
                                    channels_last(out), strides, kernel, low, high),
        cpu_engine());
    forward_run_ = dnnl::pooling_forward(*forward_);
    backward_.emplace(dnnl::pooling_backward::desc(method, channels_last(in), channels_last(out),
                                                   strides, kernel, low, high),
                      cpu_engine(), *forward_);
    backward_run_ = dnnl::pooling_backward(*backward_);
    if (options_.kind == Pooling::max)
      chosen_ = dnnl::memory(forward_->workspace_desc(), cpu_engine());
    in_shape_ = in;
    out_.resize(out);
  }

  const std::string name_;
  const PoolOptions options_;
  Shape in_shape_;
  std::optional<dnnl::pooling_forward::primitive_desc> forward_;
  std::optional<dnnl::pooling_backward::primitive_desc> backward_;
  dnnl::primitive forward_run_, backward_run_;
  dnnl::memory chosen_;
  std::vector<std::int64_t> winners_;  // of inputs with NaN: where each maximum was
  Array out_, in_gradient_;
};

class GlobalAveragePool final : public Layer {
 public:
  const Array& forward(const Array& in, const Pass& /*pass*/) override {
    if (in.shape().rank() != 4) wrong_shape("global_average_pool", "[n,h,w,c]", in.shape());
    in_shape_ = in.shape();
    const std::int64_t pixels = in.dim(1) * in.dim(2);
    const std::int64_t channels = in.dim(3);
    out_.resize({in.dim(0), channels});
    out_.fill(0);
    const float* from = in.data();
    for (std::int64_t row = 0; row < in.dim(0); ++row) {
      float* to = out_.data() + row * channels;
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel, from += channels)
        for (std::int64_t c = 0; c < channels; ++c) to[c] += from[c];
      for (std::int64_t c = 0; c < channels; ++c) to[c] /= static_cast<float>(pixels);
    }
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& /*pass*/) override {
    const std::int64_t pixels = in_shape_[1] * in_shape_[2];
    const std::int64_t channels = in_shape_[3];
    in_gradient_.resize(in_shape_);
    float* to = in_gradient_.data();
    for (std::int64_t row = 0; row < in_shape_[0]; ++row) {
      const float* from = gradient.data() + row * channels;
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel, to += channels)
        for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c] / static_cast<float>(pixels);
    }
    return in_gradient_;
  }

 private:
  Shape in_shape_;
  Array out_, in_gradient_;
};

}  // namespace

Shape pooled(const std::string& layer, const Shape& in, const PoolOptions& options) {
  if (in.rank() != 4) wrong_shape(layer, "[n,h,w,c]", in);
  if (std::max(options.padding.low, options.padding.high) >= options.kernel)
    throw Error(ErrorCode::invalid_argument,
                layer + ": the padding has to be smaller than the window");
  const auto extent = [&](std::int64_t size) {
    return (size + options.padding.low + options.padding.high - options.kernel) / options.stride +
           1;
  };
  const Shape out{in[0], extent(in[1]), extent(in[2]), in[3]};
  if (out[1] < 1 || out[2] < 1) wrong_shape(layer, "an image as large as the window", in);
  return out;
}

LayerPtr pool(const Scope& scope, const PoolOptions& options) {
  if (Gpu* gpu = scope.gpu()) return gpu_pool(*gpu, scope.prefix() + "pool", options);
  return std::make_unique<Pool>(scope.prefix() + "pool", options);
}

LayerPtr global_average_pool(const Scope& scope) {
  if (Gpu* gpu = scope.gpu()) return gpu_global_average_pool(*gpu);
  return std::make_unique<GlobalAveragePool>();
}

}  // namespace penstock::towers
