// One output value of the finishing kernels, in code for the host and for CUDA.
#pragma once

#include <cstdint>
#include <cstring>

#include <penstock/finish.h>

#include "pipeline/core/both.h"

namespace penstock {

enum class FinishType : std::int32_t { f32, f16, bf16 };

/// A batch of images to finish. Plain data, passed to kernels by value.
struct FinishPlan {
  const std::uint8_t* images = nullptr;
  const FinishSample* samples = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t channels = 0;
  std::int32_t out_height = 0;
  std::int32_t out_width = 0;
  std::int32_t channels_first = 1;
  FinishType type = FinishType::f32;
  float scale[4] = {};
  float shift[4] = {};
};

/// Labels to turn into one-hot vectors. Plain data, passed to kernels by value.
struct OneHotPlan {
  const std::int64_t* labels = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  std::int64_t classes = 0;
  FinishType type = FinishType::f32;
};

PENSTOCK_BOTH inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Converts to half precision. Rounds to nearest, ties to even; overflow becomes infinity. Source:
/// IEEE 754-2019, 4.3.1.
PENSTOCK_BOTH inline std::uint16_t half_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U)
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x1ffU));
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  std::uint32_t mantissa = magnitude - (112U << 23);
  std::uint32_t drop = 13;
  if (magnitude < 0x38800000U) {  // a subnormal half
    const std::uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return static_cast<std::uint16_t>(sign);
    mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    drop = 126 - exponent;
  }
  const std::uint32_t kept = mantissa >> drop;
  const std::uint32_t rest = mantissa & ((1U << drop) - 1);
  const std::uint32_t half = 1U << (drop - 1);
  const std::uint32_t up = rest > half || (rest == half && (kept & 1U) != 0) ? 1U : 0U;
  return static_cast<std::uint16_t>(sign | (kept + up));
}

PENSTOCK_BOTH inline std::uint16_t bfloat_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

PENSTOCK_BOTH inline void store(void* out, std::int64_t at, float value, FinishType type) {
  if (type == FinishType::f32) {
    static_cast<float*>(out)[at] = value;
  } else {
    static_cast<std::uint16_t*>(out)[at] =
        type == FinishType::f16 ? half_bits(value) : bfloat_bits(value);
  }
}

PENSTOCK_BOTH inline std::int32_t clamped(std::int32_t value, std::int32_t end) {
  return value < 0 ? 0 : value >= end ? end - 1 : value;
}

/// Computes value `at` of the output, numbered in the order in which the values lie in memory.
PENSTOCK_BOTH inline void finish_value(const FinishPlan& plan, std::int64_t at) {
  const std::int64_t pixels = static_cast<std::int64_t>(plan.out_height) * plan.out_width;
  const std::int64_t sample = at / (pixels * plan.channels);
  const std::int64_t rest = at % (pixels * plan.channels);
  const bool first = plan.channels_first != 0;
  const auto c = static_cast<std::int32_t>(first ? rest / pixels : rest % plan.channels);
  const std::int64_t pixel = first ? rest % pixels : rest / plan.channels;
  const auto y = static_cast<std::int32_t>(pixel / plan.out_width);
  auto x = static_cast<std::int32_t>(pixel % plan.out_width);
  FinishSample where;
  if (plan.samples != nullptr) where = plan.samples[sample];
  if (where.flip != 0) x = plan.out_width - 1 - x;
  const std::int64_t from_y = clamped(where.top + y, plan.height);
  const std::int64_t from_x = clamped(where.left + x, plan.width);
  const std::int64_t from =
      ((sample * plan.height + from_y) * plan.width + from_x) * plan.channels + c;
  const auto value = static_cast<float>(plan.images[from]);
  store(plan.out, at, value * plan.scale[c] + plan.shift[c], plan.type);
}

PENSTOCK_BOTH inline void one_hot_value(const OneHotPlan& plan, std::int64_t at) {
  const bool hot = plan.labels[at / plan.classes] == at % plan.classes;
  store(plan.out, at, hot ? 1.0F : 0.0F, plan.type);
}

}  // namespace penstock
