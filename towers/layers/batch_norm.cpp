#include <penstock/towers/layers/batch_norm.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "towers/gpu/layers.h"
#include "towers/train/collective.h"

namespace penstock::towers {
namespace {

class BatchNorm final : public Layer {
 public:
  BatchNorm(const Scope& scope, const BatchNormOptions& options)
      : name_(scope.prefix() + "batch_norm"),
        options_(options),
        channels_(static_cast<std::size_t>(options.channels)),
        gamma_(scope.get("gamma", {options.channels}, {Initializer::constant(options.scale)})),
        beta_(scope.get("beta", {options.channels}, {})),
        mean_(scope.get("mean", {options.channels}, {Initializer::constant(0), false})),
        variance_(scope.get("variance", {options.channels}, {Initializer::constant(1), false})),
        center_(channels_),
        inverse_(channels_),
        factor_(channels_),
        shift_(channels_) {}

  const Array& forward(const Array& in, const Pass& pass) override {
    if (in.shape().rank() < 2 || in.dim(in.shape().rank() - 1) != options_.channels)
      wrong_shape(name_, "[n, ..., " + std::to_string(options_.channels) + "]", in.shape());
    in_ = &in;
    out_.resize(in.shape());
    valid_ = static_cast<std::size_t>(std::min(pass.valid_rows, in.dim(0)) * in.row_size());
    if (pass.training) {
      measure(pass);
    } else {
      for (std::size_t c = 0; c < channels_; ++c) {
        center_[c] = mean_.value.data()[c];
        inverse_[c] = 1 / std::sqrt(variance_.value.data()[c] + options_.epsilon);
      }
    }
    for (std::size_t c = 0; c < channels_; ++c) {
      factor_[c] = inverse_[c] * gamma_.value.data()[c];
      shift_[c] = beta_.value.data()[c] - center_[c] * factor_[c];
    }
    for (std::size_t at = 0; at < in.size(); at += channels_)
      for (std::size_t c = 0; c < channels_; ++c)
        out_.data()[at + c] = in.data()[at + c] * factor_[c] + shift_[c];
    if (options_.relu)
      for (float& y : out_.values()) y = y <= 0 ? 0 : y;  // as relu: a NaN stays
    return out_;
  }

  /// With x̂ = (x - mean) / deviation: dx = gamma / deviation * (dy - mean(dy) - x̂ * mean(dy x̂)).
  const Array& backward(const Array& gradient, const Pass& pass) override {
    std::vector<double> sums(2 * channels_);  // of dy, and of dy * x̂
    for (std::size_t at = 0; at < valid_; at += channels_)
      for (std::size_t c = 0; c < channels_; ++c) {
        const double dy = passed(gradient, at + c);
        sums[c] += dy;
        sums[channels_ + c] +=
            dy * static_cast<double>((in_->data()[at + c] - center_[c]) * inverse_[c]);
      }
    const float keep_beta = beta_.accumulate();
    const float keep_gamma = gamma_.accumulate();
    for (std::size_t c = 0; c < channels_; ++c) {
      float& beta = beta_.gradient.data()[c];
      float& gamma = gamma_.gradient.data()[c];
      beta = (keep_beta == 0 ? 0 : beta) + static_cast<float>(sums[c]);
      gamma = (keep_gamma == 0 ? 0 : gamma) + static_cast<float>(sums[channels_ + c]);
    }
    beta_.added();
    gamma_.added();
    share(sums, pass);
    std::vector<float> mean_dy(channels_);
    std::vector<float> mean_dyx(channels_);
    for (std::size_t c = 0; c < channels_ && count_ > 0; ++c) {
      mean_dy[c] = static_cast<float>(sums[c] / count_);
      mean_dyx[c] = static_cast<float>(sums[channels_ + c] / count_);
    }
    in_gradient_.resize(in_->shape());
    in_gradient_.fill(0);
    for (std::size_t at = 0; at < valid_; at += channels_)
      for (std::size_t c = 0; c < channels_; ++c) {
        const float x = (in_->data()[at + c] - center_[c]) * inverse_[c];
        in_gradient_.data()[at + c] =
            factor_[c] * (passed(gradient, at + c) - mean_dy[c] - x * mean_dyx[c]);
      }
    return in_gradient_;
  }

 private:
  /// Returns the gradient of value i of the normalisation, that is in front of the relu.
  float passed(const Array& gradient, std::size_t i) const {
    return options_.relu && out_.data()[i] <= 0 ? 0 : gradient.data()[i];
  }

  /// Computes mean and variance of this step, in two passes to avoid cancellation, and updates the
  /// running statistics.
  void measure(const Pass& pass) {
    std::vector<double> sums(channels_ + 1);
    for (std::size_t at = 0; at < valid_; at += channels_)
      for (std::size_t c = 0; c < channels_; ++c)
        sums[c] += static_cast<double>(in_->data()[at + c]);
    const std::size_t positions = valid_ / channels_;
    sums[channels_] = static_cast<double>(positions);
    share(sums, pass);
    count_ = sums[channels_];
    const double divisor = std::max(1.0, count_);
    std::vector<double> squares(channels_);
    for (std::size_t c = 0; c < channels_; ++c) center_[c] = static_cast<float>(sums[c] / divisor);
    for (std::size_t at = 0; at < valid_; at += channels_)
      for (std::size_t c = 0; c < channels_; ++c) {
        const double off = static_cast<double>(in_->data()[at + c]) - sums[c] / divisor;
        squares[c] += off * off;
      }
    share(squares, pass);
    for (std::size_t c = 0; c < channels_; ++c) {
      const double variance = squares[c] / divisor;
      inverse_[c] =
          static_cast<float>(1 / std::sqrt(variance + static_cast<double>(options_.epsilon)));
      if (count_ == 0) continue;
      const double unbiased = squares[c] / std::max(1.0, divisor - 1);
      move(mean_.value.data()[c], sums[c] / divisor);
      move(variance_.value.data()[c], unbiased);
    }
  }

  void move(float& statistic, double now) const {
    statistic = options_.momentum * statistic + (1 - options_.momentum) * static_cast<float>(now);
  }

  void share(std::vector<double>& sums, const Pass& pass) const {
    if (options_.synchronised && pass.others != nullptr)
      pass.others->sum(pass.tower, std::span<double>(sums));
  }

  const std::string name_;
  const BatchNormOptions options_;
  const std::size_t channels_;
  Variable &gamma_, &beta_, &mean_, &variance_;

  const Array* in_ = nullptr;
  std::size_t valid_ = 0;  // values of valid rows
  // Values of a channel that the statistics include.
  double count_ = 0;
  std::vector<float> center_, inverse_, factor_, shift_;
  Array out_, in_gradient_;
};

}  // namespace

LayerPtr batch_norm(const Scope& scope, const BatchNormOptions& options) {
  if (Gpu* gpu = scope.gpu()) return gpu_batch_norm(*gpu, scope, options);
  return std::make_unique<BatchNorm>(scope, options);
}

}  // namespace penstock::towers
