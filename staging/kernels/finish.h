// The finishing kernels. They avoid divisions: a row of thread blocks handles one sample. A thread
// handles four pixels of a row with all their channels, in every 32nd of its block's rows.
#pragma once

#include <cstdint>

#include "staging/finish_functor.h"
#include "staging/kernels/launch.h"

namespace penstock::kernels {

/// The values that a thread stores at once. The low half of a word comes first in memory.
template <FinishType kType>
struct alignas(8) Four {
  std::uint32_t words[2];
  static constexpr std::int64_t kSize = 2;

  /// Rounds to nearest, ties to even, like half_bits and bfloat_bits. REQUIRES: no NaN.
  PENSTOCK_DEVICE static std::uint32_t pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    std::uint32_t both = 0;
    if constexpr (kType == FinishType::f16)
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    else
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#elif defined(__CUDA_ARCH__)
    if constexpr (kType == FinishType::f16) {
      std::uint16_t first = 0;
      std::uint16_t second = 0;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(first) : "f"(low));
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(second) : "f"(high));
      return first | static_cast<std::uint32_t>(second) << 16;
    } else {
      const auto rounded = [](std::uint32_t bits) { return bits + 0x7fffU + (bits >> 16 & 1U); };
      return __byte_perm(rounded(bits_of(low)), rounded(bits_of(high)), 0x7632);
    }
#else
    const auto bits = [](float value) -> std::uint32_t {
      return kType == FinishType::f16 ? half_bits(value) : bfloat_bits(value);
    };
    return bits(low) | bits(high) << 16;
#endif
  }
  PENSTOCK_DEVICE static Four of(float a, float b, float c, float d) {
    return {{pair(a, b), pair(c, d)}};
  }
  PENSTOCK_DEVICE static void store_one(std::uint8_t* to, float value) {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(pair(value, value));
  }
};
template <>
struct alignas(16) Four<FinishType::f32> {
  float values[4];
  static constexpr std::int64_t kSize = 4;

  PENSTOCK_DEVICE static Four of(float a, float b, float c, float d) { return {{a, b, c, d}}; }
  PENSTOCK_DEVICE static void store_one(std::uint8_t* to, float value) {
    *reinterpret_cast<float*>(to) = value;
  }
};

/// The threads along a row of a block; each has four pixels.
inline constexpr int kFinishLanes = 8;
inline constexpr int kFinishRows = 32;

template <FinishType kType, bool kFirst, int kChannels>
struct FinishBody {
  static constexpr unsigned kThreads = kFinishLanes * kFinishRows;
  static constexpr std::int64_t kSize = Four<kType>::kSize;
  FinishPlan plan;
  /// Not 0: four values of a row are aligned so that they can be stored at once.
  std::int32_t aligned;

  PENSTOCK_DEVICE void operator()() const {
    const auto lane = static_cast<std::int32_t>(blockIdx.x) * kFinishLanes +
                      static_cast<std::int32_t>(threadIdx.x % kFinishLanes);
    const std::int32_t x = 4 * lane;
    if (x >= plan.out_width) return;
    for (std::int64_t sample = blockIdx.y; sample < plan.count; sample += gridDim.y) {
      FinishSample where;
      if (plan.samples != nullptr) where = plan.samples[sample];
      if (aligned != 0 && x + 4 <= plan.out_width) {
        rows<true>(sample, where, x);
      } else {
        rows<false>(sample, where, x);
      }
    }
  }

 private:
  template <bool kWhole>
  PENSTOCK_DEVICE void rows(std::int64_t sample, const FinishSample& where, std::int32_t x) const {
    const std::int32_t in_row = plan.width * kChannels;
    const std::uint8_t* const image = plan.images + sample * plan.height * in_row;
    const std::uint8_t* columns[4];
    for (int p = 0; p < 4; ++p) {
      const std::int32_t at = where.flip != 0 ? plan.out_width - 1 - x - p : x + p;
      columns[p] = image + clamped(where.left + at, plan.width) * kChannels;
    }
    const std::int32_t out_row = plan.out_width * (kFirst ? 1 : kChannels);
    const std::int64_t plane = static_cast<std::int64_t>(plan.out_height) * plan.out_width * kSize;
    std::uint8_t* const out = static_cast<std::uint8_t*>(plan.out) + sample * plane * kChannels +
                              static_cast<std::int64_t>(x) * (kFirst ? 1 : kChannels) * kSize;
    const auto step = static_cast<std::int32_t>(gridDim.z) * kFinishRows;
    for (std::int32_t y = static_cast<std::int32_t>(blockIdx.z) * kFinishRows +
                          static_cast<std::int32_t>(threadIdx.x / kFinishLanes);
         y < plan.out_height; y += step) {
      const std::int64_t from =
          static_cast<std::int64_t>(clamped(where.top + y, plan.height)) * in_row;
      float values[4][kChannels];
      for (int p = 0; p < 4; ++p) {
        for (int c = 0; c < kChannels; ++c)
          values[p][c] = static_cast<float>(columns[p][from + c]) * plan.scale[c] + plan.shift[c];
      }
      std::uint8_t* const to = out + static_cast<std::int64_t>(y) * out_row * kSize;
      if constexpr (kWhole) {
        store_four(to, plane, values);
      } else {
        store_each(to, plane, x, values);
      }
    }
  }

  PENSTOCK_DEVICE static void store_four(std::uint8_t* to, std::int64_t plane,
                                         const float (&v)[4][kChannels]) {
    for (int c = 0; c < kChannels; ++c) {
      if constexpr (kFirst) {
        *reinterpret_cast<Four<kType>*>(to + c * plane) =
            Four<kType>::of(v[0][c], v[1][c], v[2][c], v[3][c]);
      } else {
        const auto value = [&](int i) { return v[i / kChannels][i % kChannels]; };
        reinterpret_cast<Four<kType>*>(to)[c] =
            Four<kType>::of(value(4 * c), value(4 * c + 1), value(4 * c + 2), value(4 * c + 3));
      }
    }
  }

  PENSTOCK_DEVICE void store_each(std::uint8_t* to, std::int64_t plane, std::int32_t x,
                                  const float (&v)[4][kChannels]) const {
    for (int p = 0; p < 4; ++p) {
      if (x + p >= plan.out_width) return;
      for (int c = 0; c < kChannels; ++c)
        Four<kType>::store_one(to + (kFirst ? c * plane + p * kSize : (p * kChannels + c) * kSize),
                               v[p][c]);
    }
  }
};

/// The one-hot kernel. Each warp takes labels in turn, and its lanes take classes.
template <FinishType kType>
struct OneHotBody {
  static constexpr unsigned kThreads = 256;
  static constexpr std::int64_t kWarp = 32;
  OneHotPlan plan;

  PENSTOCK_DEVICE void operator()() const {
    constexpr std::int64_t kWarps = kThreads / kWarp;
    const std::int64_t lane = threadIdx.x % kWarp;
    const std::int64_t step = gridDim.x * kWarps;
    for (std::int64_t row = blockIdx.x * kWarps + threadIdx.x / kWarp; row < plan.count;
         row += step) {
      const std::int64_t label = plan.labels[row];
      std::uint8_t* const out =
          static_cast<std::uint8_t*>(plan.out) + row * plan.classes * Four<kType>::kSize;
      for (std::int64_t c = lane; c < plan.classes; c += kWarp)
        Four<kType>::store_one(out + c * Four<kType>::kSize, c == label ? 1.0F : 0.0F);
    }
  }
};

/// Keeps a device busy for this time.
struct BusyBody {
  static constexpr unsigned kThreads = 32;
  unsigned long long nanoseconds;

  PENSTOCK_DEVICE static unsigned long long now() {
    unsigned long long value = 0;
#if defined(__CUDA_ARCH__)
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
#endif
    return value;
  }
  PENSTOCK_DEVICE void operator()() const {
#if defined(__CUDA_ARCH__)
    const unsigned long long start = now();
    while (now() - start < nanoseconds) __nanosleep(1000);
#endif
  }
};

template <FinishType kType, bool kFirst, typename Launch>
void finish_as(const FinishPlan& plan, const Launch& launch) {
  constexpr std::int64_t kSize = Four<kType>::kSize;
  const bool aligned =
      plan.out_width % 4 == 0 && reinterpret_cast<std::uintptr_t>(plan.out) % (4 * kSize) == 0;
  // If samples and columns are few, rows are divided too, to make enough blocks for the whole
  // device.
  constexpr std::int64_t kEnough = 2048;
  Grid grid;
  grid.x = blocks(both::divide_up(plan.out_width, 4 * kFinishLanes), std::int64_t{1} << 30);
  grid.y = blocks(plan.count, kMostY);
  grid.z = blocks(both::least<std::int64_t>(both::divide_up(plan.out_height, kFinishRows),
                                            kEnough / (std::int64_t{grid.x} * grid.y)),
                  kMostY);
  switch (plan.channels) {
    case 1:
      return launch(FinishBody<kType, kFirst, 1>{plan, aligned ? 1 : 0}, grid);
    case 2:
      return launch(FinishBody<kType, kFirst, 2>{plan, aligned ? 1 : 0}, grid);
    case 3:
      return launch(FinishBody<kType, kFirst, 3>{plan, aligned ? 1 : 0}, grid);
    default:
      return launch(FinishBody<kType, kFirst, 4>{plan, aligned ? 1 : 0}, grid);
  }
}

/// Launches the finishing kernel. REQUIRES: 1 to 4 channels, finite factors and offsets, and an
/// input row of less than 2^31 bytes.
template <typename Launch>
void finish(const FinishPlan& plan, const Launch& launch) {
  const auto as = [&]<FinishType kType>() {
    if (plan.channels_first != 0) {
      finish_as<kType, true>(plan, launch);
    } else {
      finish_as<kType, false>(plan, launch);
    }
  };
  switch (plan.type) {
    case FinishType::f32:
      return as.template operator()<FinishType::f32>();
    case FinishType::f16:
      return as.template operator()<FinishType::f16>();
    case FinishType::bf16:
      return as.template operator()<FinishType::bf16>();
  }
}

template <typename Launch>
void one_hot(const OneHotPlan& plan, const Launch& launch) {
  const Grid grid{.x = blocks(both::divide_up<std::int64_t>(plan.count, 8), 1 << 14)};
  switch (plan.type) {
    case FinishType::f32:
      return launch(OneHotBody<FinishType::f32>{plan}, grid);
    case FinishType::f16:
      return launch(OneHotBody<FinishType::f16>{plan}, grid);
    case FinishType::bf16:
      return launch(OneHotBody<FinishType::bf16>{plan}, grid);
  }
}

}  // namespace penstock::kernels
