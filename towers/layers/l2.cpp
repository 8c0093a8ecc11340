#include "towers/layers/l2.h"

namespace penstock::towers {

double L2::forward() const {
  double total = 0;
  for (const auto& [variable, weight] : terms_) {
    double sum = 0;
    for (const float value : variable->value.values())
      sum += static_cast<double>(value) * static_cast<double>(value);
    total += 0.5 * static_cast<double>(weight) * sum;
  }
  return total;
}

void L2::backward() const {
  for (const auto& [variable, weight] : terms_) {
    if (variable->accumulate() == 0) variable->gradient.fill(0);
    float* to = variable->gradient.data();
    const float* value = variable->value.data();
    for (std::size_t i = 0; i < variable->value.size(); ++i) to[i] += weight * value[i];
  }
}

}  // namespace penstock::towers
