// Kernels over single values: see functor.h.
#pragma once

#include "towers/gpu/functor.h"

namespace penstock::towers {

struct FillPlan {
  float* to;
  float value;
  PENSTOCK_TWIN void operator()(std::int64_t i) const { to[i] = value; }
};

struct ScalePlan {
  float* values;
  float factor;
  PENSTOCK_TWIN void operator()(std::int64_t i) const { values[i] *= factor; }
};

/// to = keep * to + factor * from. With keep 0, the previous `to` is ignored.
struct AddPlan {
  float* to;
  const float* from;
  float factor, keep;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const float add = factor * from[i];
    to[i] = keep == 0 ? add : keep * to[i] + add;
  }
};

struct ToBf16Plan {
  const float* from;
  Bf16* to;
  PENSTOCK_TWIN void operator()(std::int64_t i) const { store(to[i], from[i]); }
};

/// The conversion of weights from the variables' layout [out,in,area] to the channels-last layout
/// [out,area,in] of kernels.
template <typename T>
struct PackWeightsPlan {
  const float* from;
  T* to;
  std::int64_t in, area;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t c = i % in;
    const std::int64_t at = i / in % area;
    const std::int64_t out = i / in / area;
    store(to[i], from[(out * in + c) * area + at]);
  }
};

/// The conversion of the weights' gradient back.
template <typename T>
struct UnpackWeightsPlan {
  const T* from;
  float* to;
  std::int64_t in, area;
  float keep;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t at = i % area;
    const std::int64_t c = i / area % in;
    const std::int64_t out = i / area / in;
    const float value = load(from[(out * area + at) * in + c]);
    to[i] = keep == 0 ? value : to[i] + value;
  }
};

/// The sums of `count` values, kWide<T> for each `i`.
template <typename T>
struct SumOfTwoPlan {
  const T *a, *b;
  T* out;
  std::int64_t count;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t at = i * kWide<T>;
    if (count - at < kWide<T>) {
      for (std::int64_t each = at; each < count; ++each)
        store(out[each], load(a[each]) + load(b[each]));
      return;
    }
    auto sum = Values<T, kWide<T>>::at(a + at);
    const auto more = Values<T, kWide<T>>::at(b + at);
    for (int k = 0; k < kWide<T>; ++k) store(sum.of[k], load(sum.of[k]) + load(more.of[k]));
    sum.put(out + at);
  }
};

/// Whether value i of row r is kept depends only on the key and the row's element, so forward and
/// backward drop the same values.
template <typename T>
struct DropoutPlan {
  const T* in;
  T* out;
  std::int64_t width, first, stride;
  std::uint64_t key;
  std::uint32_t limit;
  float factor;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t at = i % width;
    const auto element = static_cast<std::uint64_t>(first + i / width * stride);
    const PhiloxBlock bits = philox_block(static_cast<std::uint32_t>(at / 4), element, key);
    // No indexing into `words`: an array with a variable index would be placed in memory.
    const std::uint32_t odd = (at & 2) != 0 ? bits.words[3] : bits.words[1];
    const std::uint32_t even = (at & 2) != 0 ? bits.words[2] : bits.words[0];
    store(out[i], load(in[i]) * (((at & 1) != 0 ? odd : even) < limit ? 0 : factor));
  }
};

struct SgdPlan {
  float* value;
  const float* gradient;
  float rate;
  PENSTOCK_TWIN void operator()(std::int64_t i) const { value[i] -= rate * gradient[i]; }
};

struct MomentumPlan {
  float* value;
  const float* gradient;
  float* momentum;
  float rate, keep;
  bool nesterov;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    momentum[i] = keep * momentum[i] + gradient[i];
    value[i] -= rate * (nesterov ? gradient[i] + keep * momentum[i] : momentum[i]);
  }
};

struct AdamPlan {
  float* value;
  const float* gradient;
  float *mean, *square;
  float first, second, scale, root, epsilon;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    mean[i] = first * mean[i] + (1 - first) * gradient[i];
    square[i] = second * square[i] + (1 - second) * gradient[i] * gradient[i];
    value[i] -= scale * mean[i] / (sqrtf(square[i]) * root + epsilon);
  }
};

/// The sums of squares over parts of the values.
struct SquareSumPlan {
  static constexpr bool kRows = true;
  const float* values;
  double* sums;
  std::int64_t count, part;
  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t end = (row + 1) * part < count ? (row + 1) * part : count;
    double sum = 0;
    for (std::int64_t i = row * part + lanes.first(); i < end; i += lanes.count())
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    sum = lanes.sum(sum);
    if (lanes.first() == 0) sums[row] = sum;
  }
};

/// to[c] += factor * the sum of column c. Each column is a row of the launch.
struct ColumnsPlan {
  static constexpr bool kRows = true;
  const double* from;
  double* to;
  std::int64_t rows, columns;
  double factor;
  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t column, const Lanes& lanes) const {
    double sum = 0;
    for (std::int64_t row = lanes.first(); row < rows; row += lanes.count())
      sum += from[row * columns + column];
    sum = lanes.sum(sum);
    if (lanes.first() == 0) to[column] += factor * sum;
  }
};

/// A gradient from its total, added to the previous one unless `keep` is 0.
struct GradientPlan {
  const double* totals;
  float* to;
  float keep;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const auto value = static_cast<float>(totals[i]);
    to[i] = keep == 0 ? value : to[i] + value;
  }
};

/// A scaling of the values, so that their norm, whose square is given, is at most `most`.
struct ClipPlan {
  float* values;
  const double* square;
  double most;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const double norm = sqrt(*square);
    if (norm > most) values[i] *= static_cast<float>(most / norm);
  }
};

}  // namespace penstock::towers
