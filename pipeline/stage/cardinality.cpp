#include "pipeline/stage/cardinality.h"

#include <algorithm>

namespace penstock {

std::int64_t add_cardinality(std::int64_t a, std::int64_t b) noexcept {
  if (a == kInfinite || b == kInfinite) return kInfinite;
  if (a == kUnknown || b == kUnknown) return kUnknown;
  return a + b;
}

std::int64_t min_cardinality(std::int64_t a, std::int64_t b) noexcept {
  if (a == kInfinite) return b;
  if (b == kInfinite) return a;
  if (a == kUnknown || b == kUnknown) return kUnknown;
  return std::min(a, b);
}

}  // namespace penstock
