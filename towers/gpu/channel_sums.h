// Sums over the channels of activations on a GPU.
#pragma once

#include "towers/gpu/channel_plans.h"
#include "towers/gpu/gpu.h"

namespace penstock::towers {

/// The terms of a sum over `rows` rows of activations [..., channels]. Only Sums::gradients needs a
/// gradient and `inverse`; Sums::moments needs no `center` either.
struct ChannelSums {
  Sums what = Sums::moments;
  const Array& in;
  const Array* gradient = nullptr;
  const std::uint8_t* gates = nullptr;  ///< of the gradient; null: none were clipped
  const float* center = nullptr;
  const float* inverse = nullptr;
  std::int64_t rows = 0;
  std::int64_t channels = 0;
};

/// Computes the totals into `totals`, [2, channels] f64, in the same order in every run. Uses the
/// GPU's scratch memory.
void sum_channels(Gpu& gpu, const ChannelSums& sums, Array& totals);

}  // namespace penstock::towers
