#include "pipeline/image/filter.h"

#include <algorithm>

namespace penstock::image {

void Filter::build(const Axis& axis, Precision precision) {
  if (axis == axis_ && precision == precision_) return;
  axis_ = Axis();  // until all memory is there
  precision_ = precision;
  ++version_;
  const Scaling scaling = scaling_of(axis);
  stride_ = static_cast<std::size_t>(scaling.stride);
  bits_ = weight_bits(scaling.scale, precision_);
  first_.resize(static_cast<std::size_t>(axis.count));
  weights_.assign(static_cast<std::size_t>(axis.count) * stride_, 0);
  axis_ = axis;
  taps_ = 1;
  span_begin_ = axis.in;
  span_end_ = 0;
  for (int i = 0; i < axis.count; ++i) {
    const Taps taps = taps_of(axis, scaling, i);
    weigh(taps, scaling, precision_, weights_.data() + static_cast<std::size_t>(i) * stride_);
    first_[static_cast<std::size_t>(i)] = taps.low;
    taps_ = std::max(taps_, taps.high - taps.low);
    span_begin_ = std::min(span_begin_, taps.low);
    span_end_ = std::max(span_end_, taps.high);
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

}  // namespace penstock::image
