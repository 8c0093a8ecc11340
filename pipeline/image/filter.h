// The weights of an antialiased bilinear resize along one axis.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/image/weights.h"

namespace penstock::image {

/// The input samples of each wanted output sample, and their weights. The weights form a triangle
/// that is as wide as the scale, and reaches at least one sample to each side. It is clipped to the
/// input and normalised.
class Filter {
 public:
  /// Computes the weights, unless they are those of the last call. REQUIRES: axis.in > 0, out > 0,
  /// count > 0, begin < end.
  void build(const Axis& axis, Precision precision);

  int count() const noexcept { return axis_.count; }
  /// Returns the most input samples that one output sample takes.
  int taps() const noexcept { return taps_; }
  Precision precision() const noexcept { return precision_; }
  /// Returns the precision of the weights: they are multiples of 2^-bits.
  int bits() const noexcept { return bits_; }
  /// The input samples that are needed: [span_begin, span_end).
  int span_begin() const noexcept { return span_begin_; }
  int span_end() const noexcept { return span_end_; }
  /// Returns the first input sample of an output sample. It and the taps() - 1 after it lie in the
  /// span.
  int first(int i) const noexcept { return first_[static_cast<std::size_t>(i)]; }
  /// Returns taps() weights. All are >= 0, and their sum is 2^bits().
  std::span<const std::int16_t> weights(int i) const noexcept {
    return {weights_.data() + static_cast<std::size_t>(i) * stride_,
            static_cast<std::size_t>(taps_)};
  }
  /// Returns a number that changes whenever the weights do.
  std::uint64_t version() const noexcept { return version_; }

 private:
  /// Moves taps that reach beyond the span back into it. Their weights there are 0.
  void keep_inside() noexcept;

  Precision precision_ = Precision::exact;
  Axis axis_;
  std::size_t stride_ = 0;
  int taps_ = 0;
  int bits_ = 0;
  int span_begin_ = 0;
  int span_end_ = 0;
  std::uint64_t version_ = 0;
  std::vector<std::int32_t> first_;
  std::vector<std::int16_t> weights_;
};

}  // namespace penstock::image
