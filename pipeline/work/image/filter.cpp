#include "pipeline/work/image/filter.h"

#include <algorithm>
#include <cmath>

namespace penstock::image {

void Filter::build(const Axis& axis) {
  if (axis == axis_) return;
  axis_ = Axis();  // until all memory is there
  ++version_;
  const double scale = (axis.end - axis.begin) / axis.out;
  const double support = std::max(scale, 1.0);
  stride_ = 2 * static_cast<std::size_t>(std::ceil(support)) + 1;
  // The largest weight is about 1 / scale where the scale is above 1.
  bits_ = precision_ == Precision::q15 ? 15 : std::min(14 + std::max(std::ilogb(scale), 0), 22);
  scratch_.resize(stride_);
  first_.resize(static_cast<std::size_t>(axis.count));
  weights_.assign(static_cast<std::size_t>(axis.count) * stride_, 0);
  axis_ = axis;
  taps_ = 1;
  span_begin_ = axis.in;
  span_end_ = 0;
  const double inverse = 1.0 / support;
  for (int i = 0; i < axis.count; ++i) {
    const int position = axis.first + (axis.mirrored ? axis.count - 1 - i : i);
    const double center = axis.begin + (position + 0.5) * scale;
    weigh(i, center, support, inverse);
  }
  keep_inside();
}

void Filter::keep_inside() noexcept {
  for (std::size_t i = 0; i < first_.size(); ++i) {
    const int beyond = first_[i] + taps_ - span_end_;
    if (beyond <= 0) continue;
    std::int16_t* weights = weights_.data() + i * stride_;
    std::copy_backward(weights, weights + taps_ - beyond, weights + taps_);
    std::fill_n(weights, beyond, std::int16_t{0});
    first_[i] -= beyond;
  }
}

void Filter::weigh(int sample, double center, double support, double inverse) {
  int low = std::clamp(static_cast<int>(center - support + 0.5), 0, axis_.in - 1);
  int high = std::clamp(static_cast<int>(center + support + 0.5), low + 1, axis_.in);
  const auto weight_of = [&](int x) { return 1.0 - std::abs(x - center + 0.5) * inverse; };
  // Rounding may have let in a sample at each end that has no weight.
  if (high - low > 1 && weight_of(low) <= 0) ++low;
  if (high - low > 1 && weight_of(high - 1) <= 0) --high;
  const int used = high - low;
  double* weights = scratch_.data();
  double sum = 0;
  for (int t = 0; t < used; ++t) {
    weights[t] = std::max(weight_of(low + t), 0.0);
    sum += weights[t];
  }
  if (sum == 0) weights[0] = sum = 1;
  quantise(used, sum, weights_.data() + static_cast<std::size_t>(sample) * stride_);
  first_[static_cast<std::size_t>(sample)] = low;
  taps_ = std::max(taps_, used);
  span_begin_ = std::min(span_begin_, low);
  span_end_ = std::max(span_end_, high);
}

void Filter::quantise(int used, double sum, std::int16_t* out) const noexcept {
  // In exact filters a weight must also split into a signed high and low byte.
  const int most = precision_ == Precision::q15 ? 32767 : 32767 - 128;
  const double one = (1 << bits_) / sum;
  int left = 1 << bits_;
  for (int t = 0; t < used; ++t) {
    const int weight = static_cast<int>(scratch_[static_cast<std::size_t>(t)] * one + 0.5);
    out[t] = static_cast<std::int16_t>(std::min(weight, most));
    left -= weight;
  }
  // What rounding left over goes to a middle tap, the largest or next to it.
  std::int16_t& middle = out[used / 2];
  middle = static_cast<std::int16_t>(std::clamp(middle + left, 0, most));
}

}  // namespace penstock::image
