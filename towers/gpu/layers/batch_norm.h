// The batch normalisation on a GPU.
#pragma once

#include <penstock/towers/layers/batch_norm.h>

#include "towers/gpu/channel_plans.h"
#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// Uses statistics over the tower's own rows. Its kernels also apply a relu that follows, and add a
/// residual block's shortcut.
class GpuBatchNorm : public Layer {
 public:
  GpuBatchNorm(Gpu& gpu, const Scope& scope, const BatchNormOptions& options);

  const Array& forward(const Array& in, const Pass& pass) override;
  const Array& backward(const Array& gradient, const Pass& pass) override;

  /// Returns whether `add` and `gate` may be called for a block on `gpu`.
  bool takes_block_of(const Gpu& gpu) const noexcept { return &gpu_ == &gpu && !options_.relu; }
  /// Makes the next `forward` compute relu(y + added), instead of y.
  void add(const Array& added) { added_ = &added; }
  /// Returns the gates of that relu, as channel_plans.h has them.
  const std::uint8_t* gates() const { return gates_.as<std::uint8_t>(); }
  /// Makes the next `backward` take only the gradients that these gates let pass. It returns the
  /// gradient of y.
  void gate(const std::uint8_t* gates) { outer_gates_ = gates; }
  /// Computes out = a + b, where b counts only where the gates are open.
  void add_gated(const Array& a, const Array& b, Array& out) const;

 protected:
  /// Computes the statistics of this step, and updates the running ones.
  virtual void measure(const Pass& pass);
  /// Adds the totals of the gradients to the variables' gradients, and computes their means over
  /// all towers that the statistics include.
  virtual void settle(const NormGradientsPlan& own, const Pass& pass);

  std::int64_t positions() const { return valid_ * in_->row_size() / options_.channels; }
  /// Computes the totals over the valid rows.
  void sum(Sums what, const Array* gradient = nullptr, const std::uint8_t* gates = nullptr);
  /// Computes the factors of NormPlan.
  void prepare(const double* totals, double count);

  Gpu& gpu_;
  const std::string name_;
  const BatchNormOptions options_;
  Variable &gamma_, &beta_, &mean_, &variance_;
  const Array* in_ = nullptr;
  std::int64_t valid_ = 0;
  Array center_, inverse_, factor_, shift_;  // of each channel
  Array totals_, means_;                     // of two values of each channel

 private:
  Bands bands() const { return bands_of(valid_); }
  Bands bands_of(std::int64_t rows) const;
  std::int64_t value_bytes() const { return static_cast<std::int64_t>(size_of(gpu_.dtype())); }
  void clear_padding(Array& array);

  Array gates_, out_, in_gradient_;
  const Array* added_ = nullptr;               // of the next forward pass
  const std::uint8_t* outer_gates_ = nullptr;  // of the next backward pass
  bool gated_ = false;                         // by gates_: the last forward pass had a relu
};

}  // namespace penstock::towers
