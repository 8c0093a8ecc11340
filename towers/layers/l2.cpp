#include <penstock/towers/layers/l2.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {

double L2::forward(const Pass& /*pass*/) {
  double total = 0;
  for (const auto& [variable, weight] : terms_) {
    if (Gpu* gpu = variable->gpu) {
      constexpr std::int64_t kPart = 1 << 14;
      const auto count = static_cast<std::int64_t>(variable->value.size());
      const std::int64_t parts = (count + kPart - 1) / kPart;
      auto* sums = gpu->scratch(static_cast<std::size_t>(parts) * sizeof(double)).as<double>();
      gpu->run(SquareSumPlan{variable->value.data(), sums, count, kPart}, parts);
      gpu->run(ColumnsPlan{sums, gpu->result().as<double>() + 2, parts, 1,
                           0.5 * static_cast<double>(weight)},
               1);
      continue;
    }
    double sum = 0;
    for (const float value : variable->value.values())
      sum += static_cast<double>(value) * static_cast<double>(value);
    total += 0.5 * static_cast<double>(weight) * sum;
  }
  return total;
}

void L2::backward(const Pass& /*pass*/) const {
  for (const auto& [variable, weight] : terms_) {
    if (Gpu* gpu = variable->gpu) {
      gpu->run(AddPlan{variable->gradient.data(), variable->value.data(), weight,
                       variable->accumulate()},
               static_cast<std::int64_t>(variable->value.size()));
      variable->added();
      continue;
    }
    if (variable->accumulate() == 0) variable->gradient.fill(0);
    float* to = variable->gradient.data();
    const float* value = variable->value.data();
    for (std::size_t i = 0; i < variable->value.size(); ++i) to[i] += weight * value[i];
    variable->added();
  }
}

}  // namespace penstock::towers
