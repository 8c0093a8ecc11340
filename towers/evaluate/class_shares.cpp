#include "towers/evaluate/class_shares.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace penstock::towers {

Array shares_of(const Array& logits) {
  Array shares(logits.shape());
  const std::int64_t classes = logits.dim(1);
  std::vector<double> row(static_cast<std::size_t>(classes));
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(logits.size()); at += classes) {
    for (std::int64_t c = 0; c < classes; ++c)
      row[static_cast<std::size_t>(c)] = static_cast<double>(logits.data()[at + c]);
    const double largest = *std::ranges::max_element(row);
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value - largest);
    for (std::int64_t c = 0; c < classes; ++c)
      shares.data()[at + c] = static_cast<float>(row[static_cast<std::size_t>(c)] / sum);
  }
  return shares;
}

}  // namespace penstock::towers
