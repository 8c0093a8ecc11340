#include "towers/gpu/layers/batch_norm.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "towers/gpu/channel_sums.h"
#include "towers/gpu/layers.h"
#include "towers/train/collective.h"

namespace penstock::towers {

GpuBatchNorm::GpuBatchNorm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options)
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
      means_(gpu.array(DType::f32)),
      gates_(gpu.array(DType::u8)),
      out_(gpu.array()),
      in_gradient_(gpu.array()) {
  for (Array* each : {&center_, &inverse_, &factor_, &shift_}) each->resize({options.channels});
  for (Array* each : {&totals_, &means_}) each->resize({2, options.channels});
}

const Array& GpuBatchNorm::forward(const Array& in, const Pass& pass) {
  if (in.shape().rank() < 2 || in.dim(in.shape().rank() - 1) != options_.channels)
    wrong_shape(name_, "[n, ..., " + std::to_string(options_.channels) + "]", in.shape());
  const Array* const added = std::exchange(added_, nullptr);
  if (added != nullptr && !(added->shape() == in.shape()))
    wrong_shape(name_, "a shortcut of " + in.shape().to_string(), added->shape());
  const bool relu = options_.relu || added != nullptr;
  in_ = &in;
  gated_ = relu && pass.training;
  out_.resize(in.shape());
  valid_ = pass.training ? std::min(pass.valid_rows, in.dim(0)) : in.dim(0);
  clear_padding(out_);
  if (gated_) {
    gates_.resize({in.dim(0), in.row_size() / vector_of(value_bytes(), options_.channels)});
    clear_padding(gates_);
  }
  if (pass.training) {
    measure(pass);
  } else {
    prepare(nullptr, 0);
  }
  const Bands all = bands();
  with_type(gpu_, [&]<typename T>(T) {
    gpu_.run(NormPlan<T>{in.as<T>(), added != nullptr ? added->as<T>() : nullptr, out_.as<T>(),
                         gated_ ? gates_.as<std::uint8_t>() : nullptr, factor_.data(),
                         shift_.data(), all, relu},
             all.parts());
  });
  return out_;
}

const Array& GpuBatchNorm::backward(const Array& gradient, const Pass& pass) {
  const std::uint8_t* const outer = std::exchange(outer_gates_, nullptr);
  const std::uint8_t* const gates = gated_ ? this->gates() : outer;
  in_gradient_.resize(in_->shape());
  clear_padding(in_gradient_);
  sum(Sums::gradients, &gradient, gates);
  settle({totals_.as<double>(), beta_.gradient.data(), gamma_.gradient.data(), means_.data(),
          options_.channels, beta_.accumulate(), gamma_.accumulate(),
          static_cast<double>(std::max<std::int64_t>(1, positions()))},
         pass);
  beta_.added();
  gamma_.added();
  const Bands all = bands();
  with_type(gpu_, [&]<typename T>(T) {
    gpu_.run(NormBackPlan<T>{in_->as<T>(), gradient.as<T>(), gates, in_gradient_.as<T>(),
                             center_.data(), inverse_.data(), factor_.data(), means_.data(), all},
             all.parts());
  });
  return in_gradient_;
}

void GpuBatchNorm::add_gated(const Array& a, const Array& b, Array& out) const {
  out.resize(a.shape());
  const Bands all = bands_of(a.dim(0));
  with_type(gpu_, [&]<typename T>(T) {
    gpu_.run(GatedSumPlan<T>{a.as<T>(), b.as<T>(), gates(), out.as<T>(), all}, all.parts());
  });
}

void GpuBatchNorm::measure(const Pass& /*pass*/) {
  if (valid_ == 0) return;
  sum(Sums::moments);
  prepare(totals_.as<double>(), static_cast<double>(positions()));
}

void GpuBatchNorm::settle(const NormGradientsPlan& own, const Pass& /*pass*/) {
  gpu_.run(own, own.channels);
}

void GpuBatchNorm::sum(Sums what, const Array* gradient, const std::uint8_t* gates) {
  sum_channels(gpu_,
               {what, *in_, gradient, gates, center_.data(), inverse_.data(), positions(),
                options_.channels},
               totals_);
}

void GpuBatchNorm::prepare(const double* totals, double count) {
  gpu_.run(NormStatisticsPlan{totals, gamma_.value.data(), beta_.value.data(), mean_.value.data(),
                              variance_.value.data(), center_.data(), inverse_.data(),
                              factor_.data(), shift_.data(), options_.channels, count,
                              static_cast<double>(options_.epsilon), options_.momentum},
           options_.channels);
}

Bands GpuBatchNorm::bands_of(std::int64_t rows) const {
  constexpr std::int64_t kMostParts = 4096;
  return Bands::of(rows * in_->row_size(), options_.channels, value_bytes(), kMostParts);
}

void GpuBatchNorm::clear_padding(Array& array) {
  const auto used = static_cast<std::size_t>(valid_ * array.row_size()) * size_of(array.dtype());
  gpu_.stream().clear({array.bytes() + used, array.nbytes() - used});
}

namespace {

/// Uses statistics over all towers, which are exchanged through the host as those of host devices.
class Synchronised final : public GpuBatchNorm {
 public:
  using GpuBatchNorm::GpuBatchNorm;

 private:
  void measure(const Pass& pass) override {
    sum(Sums::moments);
    std::vector<double> sums = download();
    sums.resize(channels());
    sums.push_back(static_cast<double>(positions()));
    exchange(sums, pass);
    count_ = sums.back();
    const double divisor = std::max(1.0, count_);
    std::vector<float> center(channels());
    for (std::size_t c = 0; c < channels(); ++c) center[c] = static_cast<float>(sums[c] / divisor);
    gpu_.upload(center, center_);
    sum(Sums::squares);
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

  void settle(const NormGradientsPlan& own, const Pass& pass) override {
    NormGradientsPlan gradients = own;
    gradients.means = nullptr;
    gpu_.run(gradients, own.channels);
    std::vector<double> totals = download();
    exchange(totals, pass);
    upload(totals);
    NormGradientsPlan means = own;
    means.beta = nullptr;
    means.count = std::max(1.0, count_);
    gpu_.run(means, own.channels);
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
