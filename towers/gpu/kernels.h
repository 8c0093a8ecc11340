// The table of our own kernels, one for each plan: the device's, from the CUDA module, or their
// twins on the CPU. Each plan listed here has both.
#pragma once

#include <tuple>

#include <penstock/device.h>

#include "towers/gpu/channel_plans.h"
#include "towers/gpu/image_plans.h"
#include "towers/gpu/loss_plans.h"
#include "towers/gpu/value_plans.h"

namespace penstock::towers {

/// Enqueues the plan over `count` values, or rows. Returns null, or an error message.
template <typename Plan>
using Launch = const char* (*)(const Plan& plan, std::int64_t count, StreamView stream);

template <typename... Plans>
struct LaunchesOf {
  std::tuple<Launch<Plans>...> all;
  /// Returns a table of `Make<Plan>::launch`.
  template <template <typename> class Make>
  static constexpr LaunchesOf made() {
    return {std::tuple<Launch<Plans>...>(one<Make<Plans>, Plans>()...)};
  }

 private:
  template <typename Made, typename Plan>
  static constexpr Launch<Plan> one() {
    return &Made::launch;
  }
};

template <template <typename> class... Plans>
struct OfBoth {
  template <typename... Others>
  using With = LaunchesOf<Others..., Plans<float>..., Plans<Bf16>...>;
};

using Launches = OfBoth<PackWeightsPlan, UnpackWeightsPlan, SumOfTwoPlan, DropoutPlan, PadPlan,
                        MaxPoolPlan, MaxPoolBackPlan, LrnPlan, LrnBackPlan, MomentsPlan,
                        SquaresPlan, GradientsPlan, NormPlan, NormBackPlan, GatedSumPlan,
                        SoftmaxPlan, TripletPlan, InBatchPlan, InBatchBackPlan, EmbeddingPlan,
                        EmbeddingBackPlan>::With<FillPlan, ScalePlan, AddPlan, ToBf16Plan, SgdPlan,
                                                 MomentumPlan, AdamPlan, SquareSumPlan, ColumnsPlan,
                                                 ClipPlan, TotalPlan, FourTotalsPlan, GradientPlan,
                                                 NormStatisticsPlan, NormGradientsPlan>;

/// The table that the CUDA module exports as kKernelsSymbol.
struct Kernels {
  static constexpr int kVersion = 7;
  int version = kVersion;
  Launches launches{};
  /// Makes the stream's device the calling thread's current one, for libraries that need that.
  const char* (*enter)(StreamView stream) = nullptr;
};
inline constexpr const char* kKernelsSymbol = "penstock_towers_kernels";
using KernelsFn = const Kernels* (*)();

}  // namespace penstock::towers
