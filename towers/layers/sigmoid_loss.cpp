#include "towers/layers/sigmoid_loss.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <penstock/error.h>

namespace penstock::towers {

SigmoidLoss::Result SigmoidLoss::forward(const Array& logits, std::span<const std::int64_t> labels,
                                         const Pass& pass, const float* weights) {
  if (logits.size() != labels.size())
    wrong_shape("sigmoid_loss", "[" + std::to_string(labels.size()) + ",1]", logits.shape());
  gradient_.resize(logits.shape());
  gradient_.fill(0);
  Result result;
  const std::int64_t rows = std::min(pass.valid_rows, logits.dim(0));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    if (labels[at] != 0 && labels[at] != 1)
      throw Error(ErrorCode::mismatch, "label " + std::to_string(labels[at]) + " in row " +
                                           std::to_string(row) + " is neither 0 nor 1");
    const auto x = static_cast<double>(logits.data()[at]);
    const auto label = static_cast<double>(labels[at]);
    const double small = std::exp(-std::abs(x));  // never overflows
    const double weight = weights != nullptr ? static_cast<double>(weights[at]) : 1;
    result.loss_sum += weight * (std::max(x, 0.0) - x * label + std::log1p(small));
    result.correct += (x > 0) == (labels[at] == 1) ? 1 : 0;
    const double share = x >= 0 ? 1 / (1 + small) : small / (1 + small);
    gradient_.data()[at] = static_cast<float>(weight * (share - label) / static_cast<double>(rows));
  }
  return result;
}

}  // namespace penstock::towers
