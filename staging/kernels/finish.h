// The finishing kernels. A row of thread blocks handles one sample.
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

/// Reads an aligned word.
PENSTOCK_DEVICE inline std::uint32_t word_at(const std::uint8_t* at) {
#if defined(__CUDA_ARCH__)
  return __ldg(reinterpret_cast<const std::uint32_t*>(at));
#else
  std::uint32_t word = 0;
  memcpy(&word, at, sizeof(word));
  return word;
#endif
}

/// Returns the four bytes that begin `offset` bytes behind the first of `low`. REQUIRES: offset
/// < 4.
PENSTOCK_DEVICE inline std::uint32_t joined(std::uint32_t low, std::uint32_t high,
                                            std::uint32_t offset) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, 8 * offset);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (8 * offset));
#endif
}

/// The memory that the threads of a block share: with channels last, the values that they store.
template <FinishType kType, bool kFirst, int kChannels>
struct FinishMemory {};
template <FinishType kType, int kChannels>
struct FinishMemory<kType, false, kChannels> {
  struct Shared {
    Four<kType> fours[256 * kChannels];
  };
};

/// The finishing kernel. A thread makes a unit of four pixels of a row. Threads follow the output
/// in memory, across the ends of rows, too, so that the stores of a warp adjoin; with channels
/// last, they exchange their values for that. Bytes are read as whole words if the words lie in the
/// batch and the pixels in the image.
template <FinishType kType, bool kFirst, int kChannels>
struct FinishBody : FinishMemory<kType, kFirst, kChannels> {
  static constexpr unsigned kThreads = 256;
  static constexpr std::int64_t kSize = Four<kType>::kSize;
  FinishPlan plan;
  std::uint32_t lanes = 0;  ///< the units of a row
  std::uint32_t units = 0;  ///< the units of a sample
  /// Rows are whole units, aligned so that four values can be stored at once.
  bool whole = false;

  PENSTOCK_DEVICE void operator()() const requires kFirst { finish(nullptr); }
  template <typename Shared>
  PENSTOCK_DEVICE void operator()(Shared& shared) const {
    finish(shared.fours);
  }

 private:
  static constexpr int kBytes = 4 * kChannels;

  PENSTOCK_DEVICE void finish(Four<kType>* shared) const {
    const std::uint32_t begin = blockIdx.x * kThreads;
    const std::uint32_t unit = begin + threadIdx.x;
    const std::uint32_t y = unit / lanes;
    const auto x = static_cast<std::int32_t>(4 * (unit - y * lanes));
    const std::int64_t pixels = static_cast<std::int64_t>(plan.out_height) * plan.out_width;
    for (std::int64_t sample = blockIdx.y; sample < plan.count; sample += gridDim.y) {
      FinishSample where;
      if (plan.samples != nullptr) where = plan.samples[sample];
      std::uint8_t bytes[kBytes] = {};
      if (unit < units) read(sample, where, x, static_cast<std::int32_t>(y), bytes);
      std::uint8_t* const out =
          static_cast<std::uint8_t*>(plan.out) + sample * pixels * kChannels * kSize;
      if (!whole) {
        if (unit < units) store_each(out, pixels, x, y, bytes);
      } else if constexpr (kFirst) {
        if (unit >= units) continue;
        for (int c = 0; c < kChannels; ++c)
          *reinterpret_cast<Four<kType>*>(out + (c * pixels + 4 * std::int64_t{unit}) * kSize) =
              Four<kType>::of(value(bytes, c), value(bytes, kChannels + c),
                              value(bytes, 2 * kChannels + c), value(bytes, 3 * kChannels + c));
      } else {
        for (int i = 0; i < kChannels; ++i)
          shared[threadIdx.x * kChannels + i] =
              Four<kType>::of(value(bytes, 4 * i), value(bytes, 4 * i + 1), value(bytes, 4 * i + 2),
                              value(bytes, 4 * i + 3));
        __syncthreads();
        auto* const to = reinterpret_cast<Four<kType>*>(out) + std::int64_t{begin} * kChannels;
        const std::uint32_t count = both::least(units - begin, kThreads) * kChannels;
        for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) to[i] = shared[i];
        __syncthreads();
      }
    }
  }

  PENSTOCK_DEVICE float value(const std::uint8_t (&bytes)[kBytes], int i) const {
    return static_cast<float>(bytes[i]) * plan.scale[i % kChannels] + plan.shift[i % kChannels];
  }

  /// Reads four pixels, in the order of the output.
  PENSTOCK_DEVICE void read(std::int64_t sample, const FinishSample& where, std::int32_t x,
                            std::int32_t y, std::uint8_t (&to)[kBytes]) const {
    const std::int64_t row_bytes = std::int64_t{plan.width} * kChannels;
    const std::uint8_t* const row =
        plan.images + (sample * plan.height + clamped(where.top + y, plan.height)) * row_bytes;
    const bool flip = where.flip != 0;
    const std::int32_t low = where.left + (flip ? plan.out_width - 4 - x : x);
    if (low >= 0 && low <= plan.width - 4) {
      std::uint32_t words[kChannels];
      if (read_words(row + std::int64_t{low} * kChannels, words)) {
        for (int i = 0; i < kBytes; ++i) {
          const int mirrored = (3 - i / kChannels) * kChannels + i % kChannels;
          to[i] = static_cast<std::uint8_t>(flip ? words[mirrored / 4] >> (8 * (mirrored % 4))
                                                 : words[i / 4] >> (8 * (i % 4)));
        }
        return;
      }
    }
    for (int p = 0; p < 4; ++p) {
      const std::int32_t at = where.left + (flip ? plan.out_width - 1 - x - p : x + p);
      const std::uint8_t* const pixel = row + std::int64_t{clamped(at, plan.width)} * kChannels;
      for (int c = 0; c < kChannels; ++c) to[p * kChannels + c] = pixel[c];
    }
  }

  /// Reads four pixels by whole words. Returns false if one of the words is not wholly in the
  /// batch.
  PENSTOCK_DEVICE bool read_words(const std::uint8_t* from, std::uint32_t (&to)[kChannels]) const {
    const auto offset = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from) % 4);
    const std::uint8_t* const first = from - offset;
    const std::uint8_t* const end =
        plan.images + plan.count * plan.height * (std::int64_t{plan.width} * kChannels);
    const int count = kChannels + (offset != 0 ? 1 : 0);
    if (first < plan.images || end - first < 4 * count) return false;
    std::uint32_t low = word_at(first);
    for (int i = 0; i < kChannels; ++i) {
      const std::uint32_t high = i + 1 < count ? word_at(first + 4 * (i + 1)) : 0;
      to[i] = joined(low, high, offset);
      low = high;
    }
    return true;
  }

  PENSTOCK_DEVICE void store_each(std::uint8_t* out, std::int64_t pixels, std::int32_t x,
                                  std::uint32_t y, const std::uint8_t (&bytes)[kBytes]) const {
    for (int p = 0; p < 4; ++p) {
      if (x + p >= plan.out_width) return;
      const std::int64_t pixel = std::int64_t{y} * plan.out_width + x + p;
      for (int c = 0; c < kChannels; ++c)
        Four<kType>::store_one(out + (kFirst ? c * pixels + pixel : pixel * kChannels + c) * kSize,
                               value(bytes, p * kChannels + c));
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

template <FinishType kType, bool kFirst, int kChannels, typename Launch>
void finish_channels(const FinishPlan& plan, const Launch& launch) {
  // One channel has one layout.
  FinishBody<kType, kFirst || kChannels == 1, kChannels> body;
  body.plan = plan;
  body.lanes = static_cast<std::uint32_t>(both::divide_up<std::int64_t>(plan.out_width, 4));
  body.units = body.lanes * static_cast<std::uint32_t>(plan.out_height);
  body.whole =
      plan.out_width % 4 == 0 && reinterpret_cast<std::uintptr_t>(plan.out) % (4 * body.kSize) == 0;
  launch(body, Grid{.x = blocks(both::divide_up<std::int64_t>(body.units, body.kThreads),
                                std::int64_t{1} << 30),
                    .y = blocks(plan.count, kMostY)});
}

template <FinishType kType, bool kFirst, typename Launch>
void finish_as(const FinishPlan& plan, const Launch& launch) {
  switch (plan.channels) {
    case 1:
      return finish_channels<kType, kFirst, 1>(plan, launch);
    case 2:
      return finish_channels<kType, kFirst, 2>(plan, launch);
    case 3:
      return finish_channels<kType, kFirst, 3>(plan, launch);
    default:
      return finish_channels<kType, kFirst, 4>(plan, launch);
  }
}

/// Launches the finishing kernel. REQUIRES: 1 to 4 channels, finite factors and offsets, rows of
/// less than 2^31 bytes and samples of less than 2^31 values.
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
