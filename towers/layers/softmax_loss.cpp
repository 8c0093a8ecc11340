#include <penstock/towers/layers/softmax_loss.h>

#include <algorithm>
#include <cmath>
#include <string>

#include <penstock/error.h>

#include "towers/gpu/layers.h"

namespace penstock::towers {

SoftmaxLoss::Result SoftmaxLoss::forward(const Array& logits, std::span<const std::int64_t> labels,
                                         const Pass& pass, const float* weights) {
  if (logits.shape().rank() != 2 || static_cast<std::size_t>(logits.dim(0)) != labels.size())
    wrong_shape("softmax_loss", "[" + std::to_string(labels.size()) + ",classes]", logits.shape());
  const std::int64_t classes = logits.dim(1);
  const std::int64_t rows = std::min(pass.valid_rows, logits.dim(0));
  if (pass.gpu != nullptr) {
    Gpu& gpu = *pass.gpu;
    begin_on(gpu, logits.dim(0), rows_, {&gradient_});
    gradient_.resize(logits.shape());
    with_type(gpu, [&]<typename T>(T) {
      gpu.run(SoftmaxPlan<T>{logits.as<T>(), labels.data(), weights, gradient_.as<T>(),
                             rows_.as<RowResult>(), classes, rows},
              logits.dim(0));
    });
    gpu.add_results(rows_);
    return {};
  }
  gradient_.resize(logits.shape());
  gradient_.fill(0);
  Result result;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t label = labels[static_cast<std::size_t>(row)];
    if (label < 0 || label >= classes)
      throw Error(ErrorCode::mismatch, "label " + std::to_string(label) + " in row " +
                                           std::to_string(row) + " is not one of " +
                                           std::to_string(classes) + " classes");
    const float* x = logits.data() + row * classes;
    float* gradient = gradient_.data() + row * classes;
    const float* largest = std::max_element(x, x + classes);
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c)
      sum += std::exp(static_cast<double>(x[c] - *largest));
    const double weight = weights != nullptr ? weights[row] : 1;
    result.loss_sum += weight * (std::log(sum) - static_cast<double>(x[label] - *largest));
    result.correct += (largest - x) == label ? 1 : 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double share = std::exp(static_cast<double>(x[c] - *largest)) / sum;
      gradient[c] =
          static_cast<float>(weight * (share - (c == label ? 1 : 0)) / static_cast<double>(rows));
    }
  }
  return result;
}

}  // namespace penstock::towers
