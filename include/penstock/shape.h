// Shapes of tensors, with unknown dimensions and unknown rank for specs.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace penstock {

/// The most dimensions of a shape.
inline constexpr int kMaxRank = 6;

/// The extent of each dimension, outermost first. A dimension of -1 is unknown; the rank may be
/// unknown too. A value type; not synchronised.
class Shape {
 public:
  /// The extent of an unknown dimension.
  static constexpr std::int64_t kUnknown = -1;

  /// Makes rank 0: a scalar.
  Shape() = default;
  /// Makes a shape of these dimensions. Throws Error{invalid_argument} for more than kMaxRank
  /// dimensions or one below -1.
  Shape(std::initializer_list<std::int64_t> dims)
      : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}
  /// Makes a shape of these dimensions. Throws as above.
  explicit Shape(std::span<const std::int64_t> dims) {
    if (dims.size() > kMaxRank) reject(dims);
    for (const std::int64_t dim : dims) {
      if (dim < kUnknown) reject(dims);
      dims_[static_cast<std::size_t>(rank_++)] = dim;
    }
  }
  /// A tag for one dimension of 0: the shape of no values.
  struct NoValues {};
  /// Makes the shape [0].
  constexpr explicit Shape(NoValues /*tag*/) noexcept : rank_(1) {}
  /// Returns a shape that is compatible with any other.
  static Shape unknown_rank();

  /// Returns true if the rank is known.
  bool has_rank() const noexcept { return rank_ >= 0; }
  /// Returns the number of dimensions; -1 if it is unknown.
  int rank() const noexcept { return rank_; }
  /// Returns the extent of dimension `axis`. REQUIRES: 0 <= axis < rank().
  std::int64_t operator[](int axis) const noexcept { return dims_[static_cast<std::size_t>(axis)]; }
  /// Returns all extents; none if the rank is unknown.
  std::span<const std::int64_t> dims() const noexcept;
  /// Returns true if the rank and every dimension are known.
  bool is_static() const noexcept;
  /// Returns the number of values; -1 unless static. Throws Error{out_of_range} on overflow.
  std::int64_t volume() const;

  /// Returns a copy with another extent of dimension `axis`. Throws Error{invalid_argument} if it
  /// has no such dimension, or for an extent below -1.
  Shape with(int axis, std::int64_t extent) const;
  /// Returns a copy with one more outermost dimension. Throws Error{invalid_argument} if it has
  /// kMaxRank already. An unknown rank stays unknown.
  Shape prepend(std::int64_t extent) const;
  /// Returns a copy without the outermost dimension. Throws Error{invalid_argument} for a scalar.
  /// An unknown rank stays unknown.
  Shape drop_front() const;
  /// Returns true if this shape can describe `concrete`.
  bool accepts(const Shape& concrete) const noexcept;
  /// Returns the tightest shape that accepts both.
  static Shape relax(const Shape& a, const Shape& b);
  /// Returns "[3,?,224]", "[]" for a scalar, "?" for unknown rank.
  std::string to_string() const;

  /// Returns true if ranks and extents are the same.
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
