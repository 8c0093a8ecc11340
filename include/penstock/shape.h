// Shapes of tensors, with unknown dimensions and unknown rank for specs.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace penstock {

inline constexpr int kMaxRank = 6;

/// The extent of each dimension, outermost first. A dimension of -1 is unknown; so may the rank be.
/// A value type; not synchronised.
class Shape {
 public:
  static constexpr std::int64_t kUnknown = -1;

  /// Rank 0: a scalar.
  Shape() = default;
  /// Throws Error{invalid_argument} for more than kMaxRank dimensions or one below -1.
  Shape(std::initializer_list<std::int64_t> dims)
      : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims) {
    if (dims.size() > kMaxRank) reject(dims);
    for (const std::int64_t dim : dims) {
      if (dim < kUnknown) reject(dims);
      dims_[static_cast<std::size_t>(rank_++)] = dim;
    }
  }
  /// One dimension of 0: the shape of no values.
  struct NoValues {};
  constexpr explicit Shape(NoValues /*tag*/) noexcept : rank_(1) {}
  /// A shape that any other is compatible with.
  static Shape unknown_rank();

  bool has_rank() const noexcept { return rank_ >= 0; }
  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const noexcept { return dims_[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> dims() const noexcept;
  /// Rank and every dimension known.
  bool is_static() const noexcept;
  /// Number of values; -1 unless static. Throws Error{out_of_range} on overflow.
  std::int64_t volume() const;

  Shape with(int axis, std::int64_t extent) const;
  Shape prepend(std::int64_t extent) const;
  Shape drop_front() const;
  /// True if `concrete` can be described by this shape.
  bool accepts(const Shape& concrete) const noexcept;
  /// The tightest shape that accepts both.
  static Shape relax(const Shape& a, const Shape& b);
  /// "[3,?,224]", "[]" for a scalar, "?" for unknown rank.
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (int axis = 0; axis < a.rank_; ++axis) {
      if (a[axis] != b[axis]) return false;
    }
    return true;
  }

 private:
  [[noreturn]] static void reject(std::span<const std::int64_t> dims);

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace penstock
