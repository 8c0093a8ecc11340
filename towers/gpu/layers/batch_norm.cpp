#include <penstock/towers/layers/batch_norm.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "towers/collective.h"
#include "towers/gpu/descriptors.h"
#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

/// The common parts of both variants: variables, shapes, evaluation, and rows of padding.
class GpuBatchNorm : public Layer {
 public:
  GpuBatchNorm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options)
      : gpu_(gpu),
        name_(scope.prefix() + "batch_norm"),
        options_(options),
        gamma_(scope.get("gamma", {options.channels}, {Initializer::constant(options.scale)})),
        beta_(scope.get("beta", {options.channels}, {})),
        mean_(scope.get("mean", {options.channels}, {Initializer::constant(0), false})),
        variance_(scope.get("variance", {options.channels}, {Initializer::constant(1), false})),
        desc_(gpu),
        channels_desc_(gpu),
        center_(gpu.array(DType::f32)),
        inverse_(gpu.array(DType::f32)),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    center_.resize({options.channels});
    inverse_.resize({options.channels});
    gpu.check_cudnn(gpu.cudnn().set_tensor(channels_desc_.get(), Cudnn::kNchw, Cudnn::kFloat, 1,
                                           static_cast<int>(options.channels), 1, 1));
  }

  const Array& forward(const Array& in, const Pass& pass) override {
    if (in.shape().rank() < 2 || in.dim(in.shape().rank() - 1) != options_.channels)
      wrong_shape(name_, "[n, ..., " + std::to_string(options_.channels) + "]", in.shape());
    gpu_.enter();
    in_ = &in;
    out_.resize(in.shape());
    valid_ = pass.training ? std::min(pass.valid_rows, in.dim(0)) : in.dim(0);
    clear_padding(out_);
    if (pass.training) {
      train(pass);
    } else if (valid_ > 0) {
      describe();
      gpu_.check_cudnn(gpu_.cudnn().norm_inference(
          gpu_.cudnn_handle(), Cudnn::kSpatial, &kOne, &kZero, desc_.get(), in.bytes(), desc_.get(),
          out_.bytes(), channels_desc_.get(), gamma_.value.data(), beta_.value.data(),
          mean_.value.data(), variance_.value.data(), static_cast<double>(options_.epsilon)));
    }
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& pass) override {
    gpu_.enter();
    in_gradient_.resize(in_->shape());
    clear_padding(in_gradient_);
    differentiate(gradient, pass);
    gamma_.added();
    beta_.added();
    return in_gradient_;
  }

 protected:
  virtual void train(const Pass& pass) = 0;
  virtual void differentiate(const Array& gradient, const Pass& pass) = 0;

  /// Sets the descriptor of the valid rows.
  void describe() {
    gpu_.check_cudnn(
        gpu_.cudnn().set_tensor(desc_.get(), Cudnn::kNhwc, cudnn_type(gpu_),
                                static_cast<int>(valid_), static_cast<int>(options_.channels),
                                static_cast<int>(in_->row_size() / options_.channels), 1));
  }
  std::int64_t positions() const { return valid_ * in_->row_size() / options_.channels; }

  Gpu& gpu_;
  const std::string name_;
  const BatchNormOptions options_;
  Variable &gamma_, &beta_, &mean_, &variance_;
  const TensorDescriptor desc_, channels_desc_;
  const Array* in_ = nullptr;
  std::int64_t valid_ = 0;
  Array center_, inverse_;
  Array out_, in_gradient_;

 private:
  void clear_padding(Array& array) {
    const auto used = static_cast<std::size_t>(valid_ * array.row_size()) * size_of(array.dtype());
    gpu_.stream().clear({array.bytes() + used, array.nbytes() - used});
  }
};

class OnCudnn final : public GpuBatchNorm {
 public:
  using GpuBatchNorm::GpuBatchNorm;

 private:
  int mode() const {
    return gpu_.dtype() == DType::bf16 ? Cudnn::kSpatialPersistent : Cudnn::kSpatial;
  }

  void train(const Pass& /*pass*/) override {
    if (valid_ == 0) return;
    describe();
    gpu_.check_cudnn(gpu_.cudnn().norm_training(
        gpu_.cudnn_handle(), mode(), &kOne, &kZero, desc_.get(), in_->bytes(), desc_.get(),
        out_.bytes(), channels_desc_.get(), gamma_.value.data(), beta_.value.data(),
        static_cast<double>(1 - options_.momentum), mean_.value.data(), variance_.value.data(),
        static_cast<double>(options_.epsilon), center_.data(), inverse_.data()));
  }

  void differentiate(const Array& gradient, const Pass& /*pass*/) override {
    const float keep = gamma_.accumulate();
    beta_.accumulate();
    if (valid_ == 0) {
      if (keep == 0) {
        gpu_.clear(gamma_.gradient);
        gpu_.clear(beta_.gradient);
      }
      return;
    }
    gpu_.check_cudnn(gpu_.cudnn().norm_backward(
        gpu_.cudnn_handle(), mode(), &kOne, &kZero, &kOne, &keep, desc_.get(), in_->bytes(),
        desc_.get(), gradient.bytes(), desc_.get(), in_gradient_.bytes(), channels_desc_.get(),
        gamma_.value.data(), gamma_.gradient.data(), beta_.gradient.data(),
        static_cast<double>(options_.epsilon), center_.data(), inverse_.data()));
  }
};

/// Uses statistics over all towers, computed as on host devices.
class Synchronised final : public GpuBatchNorm {
 public:
  Synchronised(Gpu& gpu, const Scope& scope, const BatchNormOptions& options)
      : GpuBatchNorm(gpu, scope, options),
        channels_(static_cast<std::size_t>(options.channels)),
        sums_(gpu.array(DType::f64)),
        per_channel_(gpu.array(DType::f32)) {
    sums_.resize({2 * options.channels});
    per_channel_.resize({4, options.channels});
  }

 private:
  void train(const Pass& pass) override {
    std::vector<double> totals = sum(0, nullptr);
    totals.push_back(static_cast<double>(positions()));
    share(totals, pass);
    count_ = totals.back();
    const double divisor = std::max(1.0, count_);
    std::vector<float> center(channels_);
    for (std::size_t c = 0; c < channels_; ++c) center[c] = static_cast<float>(totals[c] / divisor);
    gpu_.upload(center, center_);
    std::vector<double> squares = sum(1, nullptr);
    share(squares, pass);
    const Array gamma = gpu_.download(gamma_.value);
    const Array beta = gpu_.download(beta_.value);
    Array mean = gpu_.download(mean_.value);
    Array variance = gpu_.download(variance_.value);
    std::vector<float> inverse(channels_);
    factor_.resize(channels_);
    std::vector<float> shift(channels_);
    for (std::size_t c = 0; c < channels_; ++c) {
      inverse[c] = static_cast<float>(
          1 / std::sqrt(squares[c] / divisor + static_cast<double>(options_.epsilon)));
      factor_[c] = inverse[c] * gamma.data()[c];
      shift[c] = beta.data()[c] - center[c] * factor_[c];
      if (count_ == 0) continue;
      move(mean.data()[c], totals[c] / divisor);
      move(variance.data()[c], squares[c] / std::max(1.0, divisor - 1));
    }
    gpu_.upload(mean.values(), mean_.value);
    gpu_.upload(variance.values(), variance_.value);
    gpu_.upload(inverse, inverse_);
    upload_row(0, factor_);
    upload_row(1, shift);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(NormPlan<T>{in_->as<T>(), out_.as<T>(), row(0), row(1), options_.channels},
               positions() * options_.channels);
    });
  }

  void differentiate(const Array& gradient, const Pass& pass) override {
    std::vector<double> totals = sum(2, &gradient);
    std::vector<float> own(totals.begin(), totals.end());
    for (std::size_t i = 0; i < 2; ++i) {
      Variable& variable = i == 0 ? beta_ : gamma_;
      upload_row(0, std::span<const float>(own).subspan(i * channels_, channels_));
      gpu_.run(AddPlan{variable.gradient.data(), row(0), 1, variable.accumulate()},
               options_.channels);
    }
    share(totals, pass);
    std::vector<float> means(2 * channels_);
    for (std::size_t i = 0; i < means.size() && count_ > 0; ++i)
      means[i] = static_cast<float>(totals[i] / count_);
    upload_row(0, factor_);
    upload_row(1, std::span<const float>(means).first(channels_));
    upload_row(2, std::span<const float>(means).last(channels_));
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(NormBackPlan<T>{in_->as<T>(), gradient.as<T>(), in_gradient_.as<T>(), center_.data(),
                               inverse_.data(), row(0), row(1), row(2), options_.channels},
               positions() * options_.channels);
    });
  }

  std::vector<double> sum(int what, const Array* gradient) {
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(NormSumsPlan<T>{in_->as<T>(), gradient != nullptr ? gradient->as<T>() : nullptr,
                               center_.data(), inverse_.data(), sums_.as<double>(), positions(),
                               options_.channels, what},
               options_.channels);
    });
    std::vector<double> totals(what == 2 ? 2 * channels_ : channels_);
    gpu_.stream().copy({totals.data(), sums_.bytes(), totals.size() * sizeof(double)});
    gpu_.stream().synchronize();
    gpu_.device()->check();
    return totals;
  }

  void share(std::vector<double>& totals, const Pass& pass) const {
    if (pass.others != nullptr) pass.others->sum(pass.tower, std::span<double>(totals));
  }
  void move(float& statistic, double now) const {
    statistic = options_.momentum * statistic + (1 - options_.momentum) * static_cast<float>(now);
  }
  float* row(std::int64_t r) { return per_channel_.data() + r * options_.channels; }
  void upload_row(std::int64_t r, std::span<const float> values) {
    Array to = Array::view(row(r), {options_.channels});
    gpu_.upload(values, to);
  }

  const std::size_t channels_;
  double count_ = 0;
  std::vector<float> factor_;
  Array sums_, per_channel_;
};

}  // namespace

LayerPtr gpu_batch_norm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options) {
  if (options.synchronised) return std::make_unique<Synchronised>(gpu, scope, options);
  return std::make_unique<OnCudnn>(gpu, scope, options);
}

}  // namespace penstock::towers
