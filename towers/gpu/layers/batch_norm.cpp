#include <penstock/towers/layers/batch_norm.h>

#include <algorithm>
#include <vector>

#include "towers/gpu/channel_sums.h"
#include "towers/gpu/layers.h"
#include "towers/train/collective.h"

namespace penstock::towers {
namespace {

/// Uses statistics over the tower's own rows.
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
        center_(gpu.array(DType::f32)),
        inverse_(gpu.array(DType::f32)),
        factor_(gpu.array(DType::f32)),
        shift_(gpu.array(DType::f32)),
        totals_(gpu.array(DType::f64)),
        out_(gpu.array()),
        in_gradient_(gpu.array()) {
    for (Array* each : {&center_, &inverse_, &factor_, &shift_}) each->resize({options.channels});
    totals_.resize({2, options.channels});
  }

  const Array& forward(const Array& in, const Pass& pass) override {
    if (in.shape().rank() < 2 || in.dim(in.shape().rank() - 1) != options_.channels)
      wrong_shape(name_, "[n, ..., " + std::to_string(options_.channels) + "]", in.shape());
    in_ = &in;
    out_.resize(in.shape());
    valid_ = pass.training ? std::min(pass.valid_rows, in.dim(0)) : in.dim(0);
    clear_padding(out_);
    if (pass.training) {
      measure(pass);
    } else {
      prepare(nullptr, 0);
    }
    const Bands bands = bands_of(kMostParts);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(NormPlan<T>{in.as<T>(), out_.as<T>(), factor_.data(), shift_.data(), bands},
               bands.parts());
    });
    return out_;
  }

  const Array& backward(const Array& gradient, const Pass& pass) override {
    in_gradient_.resize(in_->shape());
    clear_padding(in_gradient_);
    sum(Sums::gradients, &gradient);
    add_gradient(beta_, 0);
    add_gradient(gamma_, options_.channels);
    const double count = std::max(1.0, share(pass));
    const Bands bands = bands_of(kMostParts);
    with_type(gpu_, [&]<typename T>(T) {
      gpu_.run(NormBackPlan<T>{in_->as<T>(), gradient.as<T>(), in_gradient_.as<T>(), center_.data(),
                               inverse_.data(), factor_.data(), totals_.as<double>(), bands, count},
               bands.parts());
    });
    return in_gradient_;
  }

 protected:
  /// Computes the statistics of this step, and updates the running ones.
  virtual void measure(const Pass& /*pass*/) {
    if (valid_ == 0) return;
    sum(Sums::moments, nullptr);
    prepare(totals_.as<double>(), static_cast<double>(positions()));
  }
  /// Makes the totals of the gradients those of all towers that the statistics include. Returns the
  /// number of values of a channel in them.
  virtual double share(const Pass& /*pass*/) { return static_cast<double>(positions()); }

  std::int64_t positions() const { return valid_ * in_->row_size() / options_.channels; }

  /// Computes the totals over the valid rows.
  void sum(Sums what, const Array* gradient) {
    sum_channels(
        gpu_,
        {what, *in_, gradient, center_.data(), inverse_.data(), positions(), options_.channels},
        totals_);
  }

  /// Computes the factors of NormPlan.
  void prepare(const double* totals, double count) {
    gpu_.run(NormStatisticsPlan{totals, gamma_.value.data(), beta_.value.data(), mean_.value.data(),
                                variance_.value.data(), center_.data(), inverse_.data(),
                                factor_.data(), shift_.data(), options_.channels, count,
                                static_cast<double>(options_.epsilon), options_.momentum},
             options_.channels);
  }

  Gpu& gpu_;
  const std::string name_;
  const BatchNormOptions options_;
  Variable &gamma_, &beta_, &mean_, &variance_;
  const Array* in_ = nullptr;
  std::int64_t valid_ = 0;
  Array center_, inverse_, factor_, shift_;  // of each channel
  Array totals_;                             // of two values of each channel
  Array out_, in_gradient_;

 private:
  static constexpr std::int64_t kMostParts = 4096;

  Bands bands_of(std::int64_t most) const {
    return Bands::of(valid_ * in_->row_size(), options_.channels,
                     static_cast<std::int64_t>(size_of(gpu_.dtype())), most);
  }
  void add_gradient(Variable& variable, std::int64_t first) {
    gpu_.run(
        GradientPlan{totals_.as<double>() + first, variable.gradient.data(), variable.accumulate()},
        options_.channels);
    variable.added();
  }
  void clear_padding(Array& array) {
    const auto used = static_cast<std::size_t>(valid_ * array.row_size()) * size_of(array.dtype());
    gpu_.stream().clear({array.bytes() + used, array.nbytes() - used});
  }
};

/// Uses statistics over all towers, which are exchanged through the host as those of host devices.
class Synchronised final : public GpuBatchNorm {
 public:
  using GpuBatchNorm::GpuBatchNorm;

 private:
  void measure(const Pass& pass) override {
    sum(Sums::moments, nullptr);
    std::vector<double> sums = download();
    sums.resize(channels());
    sums.push_back(static_cast<double>(positions()));
    exchange(sums, pass);
    count_ = sums.back();
    const double divisor = std::max(1.0, count_);
    std::vector<float> center(channels());
    for (std::size_t c = 0; c < channels(); ++c) center[c] = static_cast<float>(sums[c] / divisor);
    gpu_.upload(center, center_);
    sum(Sums::squares, nullptr);
    std::vector<double> squares = download();
    squares.resize(channels());
    exchange(squares, pass);
    if (count_ == 0) return;
    sums.resize(channels());
    for (std::size_t c = 0; c < channels(); ++c)
      sums.push_back(squares[c] + sums[c] / count_ * sums[c]);
    upload(sums);
    prepare(totals_.as<double>(), count_);
  }

  double share(const Pass& pass) override {
    std::vector<double> totals = download();
    exchange(totals, pass);
    upload(totals);
    return count_;
  }

  std::size_t channels() const { return static_cast<std::size_t>(options_.channels); }

  std::vector<double> download() {
    std::vector<double> totals(2 * channels());
    gpu_.stream().copy({totals.data(), totals_.bytes(), totals.size() * sizeof(double)});
    gpu_.stream().synchronize();
    gpu_.device()->check();
    return totals;
  }
  void upload(const std::vector<double>& totals) {
    gpu_.stream().copy({totals_.bytes(), totals.data(), totals.size() * sizeof(double)});
    gpu_.stream().synchronize();
  }
  static void exchange(std::vector<double>& totals, const Pass& pass) {
    if (pass.others != nullptr) pass.others->sum(pass.tower, std::span<double>(totals));
  }

  double count_ = 0;
};

}  // namespace

LayerPtr gpu_batch_norm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options) {
  if (options.synchronised) return std::make_unique<Synchronised>(gpu, scope, options);
  return std::make_unique<GpuBatchNorm>(gpu, scope, options);
}

}  // namespace penstock::towers
