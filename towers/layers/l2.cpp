#include "towers/layers/l2.h"

#include "towers/gpu/gpu.h"

namespace penstock::towers {

double L2::forward(const Pass& pass) {
  if (pass.gpu != nullptr) {
    Gpu& gpu = *pass.gpu;
    if (sums_.dtype() != DType::f64) sums_ = gpu.array(DType::f64);
    for (const auto& [variable, weight] : terms_) {
      constexpr std::int64_t kPart = 1 << 14;
      const auto count = static_cast<std::int64_t>(variable->value.size());
      const std::int64_t parts = (count + kPart - 1) / kPart;
      sums_.resize({parts});
      gpu.run(SquareSumPlan{variable->value.data(), sums_.as<double>(), count, kPart}, parts);
      gpu.run(ColumnsPlan{sums_.as<double>(), gpu.result().as<double>() + 2, parts, 1,
                          0.5 * static_cast<double>(weight)},
              1);
    }
    return 0;
  }
  double total = 0;
  for (const auto& [variable, weight] : terms_) {
    double sum = 0;
    for (const float value : variable->value.values())
      sum += static_cast<double>(value) * static_cast<double>(value);
    total += 0.5 * static_cast<double>(weight) * sum;
  }
  return total;
}

void L2::backward(const Pass& pass) const {
  for (const auto& [variable, weight] : terms_) {
    if (pass.gpu != nullptr) {
      pass.gpu->run(AddPlan{variable->gradient.data(), variable->value.data(), weight,
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
