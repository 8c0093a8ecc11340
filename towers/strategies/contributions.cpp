#include "towers/strategies/contributions.h"

#include <algorithm>
#include <vector>

#include "towers/tree_sum.h"

namespace penstock::towers {

bool add_up_pushed(std::span<const PushedGradient> pushed, std::size_t count, Combine combine) {
  double rows = 0;
  int there = 0;
  for (const PushedGradient& one : pushed) {
    if (!one.there) continue;
    rows += static_cast<double>(one.rows);
    ++there;
  }
  if (there == 0) return false;
  std::vector<float*> parts;
  for (const PushedGradient& one : pushed) {
    parts.push_back(one.values);
    const std::span<float> values(one.values, count);
    if (!one.there) {
      std::ranges::fill(values, 0.0F);
    } else if (combine == Combine::average && there > 1) {
      const auto weight = static_cast<float>(static_cast<double>(one.rows) / rows);
      for (float& value : values) value *= weight;
    }
  }
  sum_by_tree<float>(parts, 0, count);
  return true;
}

}  // namespace penstock::towers
