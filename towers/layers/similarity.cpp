#include <penstock/towers/layers/similarity.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "towers/gpu/layers.h"

namespace penstock::towers {
namespace {

struct Cosine {
  double value = 0;
  double a = 0, b = 0;  // norms
};

Cosine cosine(const float* a, const float* b, std::int64_t width) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (std::int64_t d = 0; d < width; ++d) {
    dot += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    aa += static_cast<double>(a[d]) * static_cast<double>(a[d]);
    bb += static_cast<double>(b[d]) * static_cast<double>(b[d]);
  }
  if (aa == 0 || bb == 0) return {};
  return {dot / std::sqrt(aa * bb), std::sqrt(aa), std::sqrt(bb)};
}

/// Adds weight * d cos(a, b) / da = weight * (b / (|a||b|) - cos a / |a|²), and the same for b.
void add_gradient(const Cosine& cos, double weight, const float* a, const float* b, float* to_a,
                  float* to_b, std::int64_t width) {
  if (cos.a == 0 || weight == 0) return;
  for (std::int64_t d = 0; d < width; ++d) {
    const auto x = static_cast<double>(a[d]);
    const auto y = static_cast<double>(b[d]);
    to_a[d] += static_cast<float>(weight * (y / (cos.a * cos.b) - cos.value * x / (cos.a * cos.a)));
    to_b[d] += static_cast<float>(weight * (x / (cos.a * cos.b) - cos.value * y / (cos.b * cos.b)));
  }
}

void begin(Array& gradient, const Array& of) {
  gradient.resize(of.shape());
  gradient.fill(0);
}

}  // namespace

std::vector<float> cosines(const Array& a, const Array& b) {
  std::vector<float> all;
  for (std::int64_t row = 0; row < a.dim(0); ++row) {
    const std::int64_t at = row * a.row_size();
    all.push_back(static_cast<float>(cosine(a.data() + at, b.data() + at, a.row_size()).value));
  }
  return all;
}

TripletLoss::Result TripletLoss::forward(const Array& query, const Array& positive,
                                         const Array& negative, const Pass& pass,
                                         const float* weights) {
  if (!(query.shape() == positive.shape()) || !(query.shape() == negative.shape()))
    wrong_shape("triplet_loss", "three of " + query.shape().to_string(), positive.shape());
  const std::int64_t width = query.row_size();
  const std::int64_t rows = std::min(pass.valid_rows, query.dim(0));
  if (pass.gpu != nullptr) {
    Gpu& gpu = *pass.gpu;
    begin_on(gpu, query.dim(0), rows_, {&query_, &positive_, &negative_});
    for (Array* gradient : {&query_, &positive_, &negative_}) gradient->resize(query.shape());
    with_type(gpu, [&]<typename T>(T) {
      gpu.run(TripletPlan<T>{query.as<T>(), positive.as<T>(), negative.as<T>(), weights,
                             query_.as<T>(), positive_.as<T>(), negative_.as<T>(),
                             rows_.as<RowResult>(), width, rows, static_cast<double>(margin_)},
              query.dim(0));
    });
    gpu.add_results(rows_);
    return {};
  }
  begin(query_, query);
  begin(positive_, positive);
  begin(negative_, negative);
  Result result;
  for (std::int64_t at = 0; at < rows * width; at += width) {
    const Cosine near = cosine(query.data() + at, positive.data() + at, width);
    const Cosine far = cosine(query.data() + at, negative.data() + at, width);
    result.correct += near.value > far.value ? 1 : 0;
    const double loss = static_cast<double>(margin_) - near.value + far.value;
    if (loss <= 0) continue;
    const double weight = weights != nullptr ? weights[at / width] : 1;
    result.loss_sum += weight * loss;
    const double share = weight / static_cast<double>(rows);
    add_gradient(near, -share, query.data() + at, positive.data() + at, query_.data() + at,
                 positive_.data() + at, width);
    add_gradient(far, share, query.data() + at, negative.data() + at, query_.data() + at,
                 negative_.data() + at, width);
  }
  return result;
}

InBatchNegativesLoss::Result InBatchNegativesLoss::forward(const Array& query,
                                                           const Array& positive,
                                                           const Pass& pass) {
  if (!(query.shape() == positive.shape()))
    wrong_shape("in_batch_negatives_loss", "two of " + query.shape().to_string(), positive.shape());
  const std::int64_t width = query.row_size();
  const std::int64_t rows = std::min(pass.valid_rows, query.dim(0));
  if (pass.gpu != nullptr) {
    Gpu& gpu = *pass.gpu;
    begin_on(gpu, rows, rows_, {&query_, &positive_});
    if (weights_.dtype() != DType::f64) weights_ = gpu.array(DType::f64);
    weights_.resize({2, rows, rows});
    for (Array* gradient : {&query_, &positive_}) gradient->resize(query.shape());
    with_type(gpu, [&]<typename T>(T) {
      const T* q = query.as<T>();
      const T* p = positive.as<T>();
      double* pulls = weights_.as<double>();
      double* turns = pulls + rows * rows;
      gpu.run(InBatchPlan<T>{q, p, pulls, turns, rows_.as<RowResult>(), width, rows,
                             static_cast<double>(scale_)},
              rows);
      gpu.run(InBatchBackPlan<T>{q, p, pulls, turns, query_.as<T>(), width, rows, false},
              query.dim(0));
      gpu.run(InBatchBackPlan<T>{p, q, pulls, turns, positive_.as<T>(), width, rows, true},
              query.dim(0));
    });
    gpu.add_results(rows_);
    return {};
  }
  begin(query_, query);
  begin(positive_, positive);
  std::vector<Cosine> cosines(static_cast<std::size_t>(rows));
  std::vector<double> shares(static_cast<std::size_t>(rows));
  Result result;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* mine = query.data() + row * width;
    for (std::int64_t other = 0; other < rows; ++other)
      cosines[static_cast<std::size_t>(other)] =
          cosine(mine, positive.data() + other * width, width);
    const auto best = std::ranges::max_element(cosines, {}, &Cosine::value);
    result.correct += best - cosines.begin() == row ? 1 : 0;
    double sum = 0;
    for (std::size_t other = 0; other < cosines.size(); ++other)
      sum += shares[other] =
          std::exp(static_cast<double>(scale_) * (cosines[other].value - best->value));
    const auto own = static_cast<std::size_t>(row);
    result.loss_sum +=
        std::log(sum) - static_cast<double>(scale_) * (cosines[own].value - best->value);
    for (std::size_t other = 0; other < cosines.size(); ++other) {
      const double weight = static_cast<double>(scale_) *
                            (shares[other] / sum - (other == own ? 1 : 0)) /
                            static_cast<double>(rows);
      const auto at = static_cast<std::int64_t>(other) * width;
      add_gradient(cosines[other], weight, mine, positive.data() + at, query_.data() + row * width,
                   positive_.data() + at, width);
    }
  }
  return result;
}

}  // namespace penstock::towers
