// Kernels of losses and of texts: see functor.h.
#pragma once

#include "towers/gpu/functor.h"

namespace penstock::towers {

/// The result of one row. Arrays of them are [rows,4] doubles, which ColumnsPlan adds up into
/// Gpu::result.
struct RowResult {
  double loss, correct, regularization;
  double trouble;  ///< 1 if a label or an id is out of range
};

/// The softmax cross-entropy of a row, and its gradient.
template <typename T>
struct SoftmaxPlan {
  static constexpr bool kRows = true;
  const T* logits;
  const std::int64_t* labels;
  const float* weights;  // of rows; null: 1 each
  T* gradient;
  RowResult* results;
  std::int64_t classes, valid;
  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t row, const Lanes& lanes) const {
    const T* x = logits + row * classes;
    const std::int64_t label = row < valid ? labels[row] : 0;
    const bool bad = label < 0 || label >= classes;
    double largest = -INFINITY;
    for (std::int64_t c = lanes.first(); c < classes; c += lanes.count())
      largest = fmax(largest, static_cast<double>(load(x[c])));
    largest = lanes.max(largest);
    double sum = 0;
    double place = -static_cast<double>(classes);  // negated place of the first maximum
    for (std::int64_t c = lanes.first(); c < classes; c += lanes.count()) {
      const auto value = static_cast<double>(load(x[c]));
      sum += exp(value - largest);
      if (value == largest) place = fmax(place, -static_cast<double>(c));
    }
    sum = lanes.sum(sum);
    place = lanes.max(place);
    const bool counts = row < valid && !bad;
    const double weight = weights != nullptr && counts ? static_cast<double>(weights[row]) : 1;
    for (std::int64_t c = lanes.first(); c < classes; c += lanes.count()) {
      const double share = exp(static_cast<double>(load(x[c])) - largest) / sum;
      store(gradient[row * classes + c],
            counts ? static_cast<float>(weight * (share - (c == label ? 1 : 0)) /
                                        static_cast<double>(valid))
                   : 0.0F);
    }
    if (lanes.first() != 0) return;
    results[row] = {
        counts ? weight * (::log(sum) - (static_cast<double>(load(x[label])) - largest)) : 0,
        counts && -place == static_cast<double>(label) ? 1.0 : 0.0, 0, bad ? 1.0 : 0.0};
  }
};

/// The cosine of two vectors, and the values that its derivatives need. All are 0 if a vector is
/// zero.
struct CosineParts {
  double value, a, b;  ///< a and b are the norms
};
template <typename T>
PENSTOCK_TWIN CosineParts cosine_of(const T* a, const T* b, std::int64_t width) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (std::int64_t d = 0; d < width; ++d) {
    const auto x = static_cast<double>(load(a[d]));
    const auto y = static_cast<double>(load(b[d]));
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  if (aa == 0 || bb == 0) return {0, 0, 0};
  return {dot / sqrt(aa * bb), sqrt(aa), sqrt(bb)};
}
/// Returns d cos / da at place d.
template <typename T>
PENSTOCK_TWIN double cosine_slope(const CosineParts& cos, const T* a, const T* b, std::int64_t d) {
  if (cos.a == 0) return 0;
  return static_cast<double>(load(b[d])) / (cos.a * cos.b) -
         cos.value * static_cast<double>(load(a[d])) / (cos.a * cos.a);
}
PENSTOCK_TWIN inline CosineParts turned(const CosineParts& cos) {
  return {cos.value, cos.b, cos.a};
}

template <typename T>
struct TripletPlan {
  const T *query, *positive, *negative;
  const float* weights;  // of rows; null: 1 each
  T *to_query, *to_positive, *to_negative;
  RowResult* results;
  std::int64_t width, valid;
  double margin;
  PENSTOCK_TWIN void operator()(std::int64_t row) const {
    const std::int64_t at = row * width;
    const T *q = query + at, *p = positive + at, *n = negative + at;
    const CosineParts near = cosine_of(q, p, width);
    const CosineParts far = cosine_of(q, n, width);
    const double loss = margin - near.value + far.value;
    const bool active = row < valid && !(loss <= 0);  // a NaN counts
    const double weight = weights != nullptr && active ? static_cast<double>(weights[row]) : 1;
    const double share = active ? weight / static_cast<double>(valid) : 0;
    for (std::int64_t d = 0; d < width; ++d) {
      store(to_query[at + d],
            static_cast<float>(share * (cosine_slope(far, q, n, d) - cosine_slope(near, q, p, d))));
      store(to_positive[at + d], static_cast<float>(-share * cosine_slope(turned(near), p, q, d)));
      store(to_negative[at + d], static_cast<float>(share * cosine_slope(turned(far), n, q, d)));
    }
    results[row] = {active ? weight * loss : 0, row < valid && near.value > far.value ? 1.0 : 0.0,
                    0, 0};
  }
};

/// In-batch negatives: the gradient's weights of one row, and the row's result. For a weight w of a
/// cosine, d w cos(a, b) / da = pull b - turn a / |a|^2. `pulls` and `turns` are both
/// [valid,valid].
template <typename T>
struct InBatchPlan {
  static constexpr bool kRows = true;
  const T *query, *positive;
  double *pulls, *turns;
  RowResult* results;
  std::int64_t width, valid;
  double scale;
  template <typename Lanes>
  PENSTOCK_TWIN void operator()(std::int64_t row, const Lanes& lanes) const {
    double* mine = turns + row * valid;  // holds the cosines at first
    double* pull = pulls + row * valid;  // holds the products of norms at first
    double best = -2;
    for (std::int64_t other = lanes.first(); other < valid; other += lanes.count()) {
      const CosineParts cos = cosine_of(query + row * width, positive + other * width, width);
      mine[other] = cos.value;
      pull[other] = cos.a * cos.b;
      best = fmax(best, cos.value);
    }
    best = lanes.max(best);
    double sum = 0;
    double place = -static_cast<double>(valid);
    double own = -2;
    for (std::int64_t other = lanes.first(); other < valid; other += lanes.count()) {
      sum += exp(scale * (mine[other] - best));
      if (mine[other] == best) place = fmax(place, -static_cast<double>(other));
      if (other == row) own = mine[other];
    }
    sum = lanes.sum(sum);
    place = lanes.max(place);
    own = lanes.max(own);
    for (std::int64_t other = lanes.first(); other < valid; other += lanes.count()) {
      const double weight = scale *
                            (exp(scale * (mine[other] - best)) / sum - (other == row ? 1 : 0)) /
                            static_cast<double>(valid);
      mine[other] *= weight;
      pull[other] = pull[other] > 0 ? weight / pull[other] : 0;
    }
    if (lanes.first() == 0)
      results[row] = {::log(sum) - scale * (own - best),
                      -place == static_cast<double>(row) ? 1.0 : 0.0, 0, 0};
  }
};

/// The gradients of queries, from `pulls` and `turns`; or of positives if `columns`.
template <typename T>
struct InBatchBackPlan {
  const T *mine, *others;
  const double *pulls, *turns;
  T* gradient;
  std::int64_t width, valid;
  bool columns;
  PENSTOCK_TWIN void operator()(std::int64_t row) const {
    for (std::int64_t d = 0; d < width; ++d) store(gradient[row * width + d], 0);
    if (row >= valid) return;
    const std::int64_t first = columns ? row : row * valid;
    const std::int64_t step = columns ? valid : 1;
    const T* a = mine + row * width;
    double norm = 0;
    for (std::int64_t d = 0; d < width; ++d)
      norm += static_cast<double>(load(a[d])) * static_cast<double>(load(a[d]));
    double turn = 0;
    for (std::int64_t other = 0; other < valid; ++other) turn += turns[first + other * step];
    if (norm > 0) turn /= norm;
    for (std::int64_t d = 0; d < width; ++d) {
      double sum = -turn * static_cast<double>(load(a[d]));
      for (std::int64_t other = 0; other < valid; ++other)
        sum += pulls[first + other * step] * static_cast<double>(load(others[other * width + d]));
      store(gradient[row * width + d], static_cast<float>(sum));
    }
  }
};

/// One value of the mean of the table rows that a sample names. Ids out of range count as trouble.
template <typename T>
struct EmbeddingPlan {
  const float* table;
  const std::int64_t* ids;
  T* out;
  RowResult* results;  ///< one for each sample
  std::int64_t rows, width, most;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    const std::int64_t sample = i / width;
    const std::int64_t d = i % width;
    float sum = 0;
    std::int64_t count = 0;
    bool bad = false;
    for (std::int64_t k = 0; k < most; ++k) count += ids[sample * most + k] >= 0 ? 1 : 0;
    for (std::int64_t k = 0; k < most; ++k) {
      const std::int64_t id = ids[sample * most + k];
      if (id >= rows) bad = true;
      if (id >= 0 && id < rows) sum += table[id * width + d] / static_cast<float>(count);
    }
    store(out[i], sum);
    if (d == 0) results[sample] = {0, 0, 0, bad ? 1.0 : 0.0};
  }
};

/// The addition of gradients to the table. Value i handles sample i / width, and every `step`th
/// sample after it. With a step of 1, over `width` values, only one thread adds to each place of
/// the table. Sums are then made in order.
template <typename T>
struct EmbeddingBackPlan {
  const T* gradient;
  const std::int64_t* ids;
  float* table_gradient;
  std::int64_t rows, width, most, samples, step;
  PENSTOCK_TWIN void operator()(std::int64_t i) const {
    for (std::int64_t sample = i / width; sample < samples; sample += step) {
      const float owed = load(gradient[sample * width + i % width]);
      std::int64_t count = 0;
      for (std::int64_t k = 0; k < most; ++k) count += ids[sample * most + k] >= 0 ? 1 : 0;
      for (std::int64_t k = 0; k < most; ++k) {
        const std::int64_t id = ids[sample * most + k];
        if (id >= 0 && id < rows)
          add_shared(table_gradient[id * width + i % width], owed / static_cast<float>(count));
      }
    }
  }
};

}  // namespace penstock::towers
