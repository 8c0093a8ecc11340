#include "pipeline/http/lateness.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace penstock::http {

std::size_t Lateness::class_of(std::uint64_t bytes) noexcept {
  return std::min<std::size_t>(kClasses - 1, static_cast<std::size_t>(std::bit_width(bytes >> 14)));
}

void Lateness::took(std::uint64_t bytes, double seconds) noexcept {
  constexpr std::size_t kBetween = 8;  // answers, between two looks at all of them
  SizeClass& own = classes_[class_of(bytes)];
  own.seconds[own.count++ % kKnown] = static_cast<float>(seconds);
  if (own.count < kLeast || own.count % kBetween != 0) return;
  std::array<float, kKnown> sorted = own.seconds;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(own.count, kKnown));
  std::sort(sorted.begin(), end);
  const auto n = static_cast<std::size_t>(end - sorted.begin());
  own.late_s = std::max({kSoonest, 4.0 * sorted[n / 2], 1.5 * sorted[n * 9 / 10]});
}

double Lateness::late_after(std::uint64_t bytes) const noexcept {
  const double late_s = classes_[class_of(bytes)].late_s;
  return late_s > 0 ? late_s : std::numeric_limits<double>::infinity();
}

}  // namespace penstock::http
