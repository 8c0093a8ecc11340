// The number formats that layers on GPUs compute in.
#pragma once

namespace penstock::towers {

/// The number format in which layers on GPUs compute. Variables, their gradients and the
/// optimizer's arrays are f32 in each.
enum class Precision {
  f32,  ///< true f32
  /// f32 in memory; matrix products and convolutions use tensor cores with 10 bits of mantissa.
  tf32,
  bf16,  ///< activations and their gradients are bf16, sums f32
};

}  // namespace penstock::towers
