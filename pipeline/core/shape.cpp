#include <penstock/shape.h>

#include <algorithm>

#include <penstock/error.h>

namespace penstock {

void Shape::reject(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw Error(ErrorCode::invalid_argument, "a shape of " + std::to_string(dims.size()) +
                                                 " dimensions; at most " +
                                                 std::to_string(kMaxRank) + " are possible");
  }
  throw Error(ErrorCode::invalid_argument,
              "a shape with a dimension of " + std::to_string(*std::ranges::min_element(dims)));
}

Shape Shape::unknown_rank() {
  Shape shape;
  shape.rank_ = -1;
  return shape;
}

std::span<const std::int64_t> Shape::dims() const noexcept {
  return {dims_.data(), static_cast<std::size_t>(std::max(rank_, 0))};
}

bool Shape::is_static() const noexcept {
  return rank_ >= 0 && std::ranges::find(dims(), kUnknown) == dims().end();
}

std::int64_t Shape::volume() const {
  if (!is_static()) return kUnknown;
  if (std::ranges::find(dims(), 0) != dims().end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t dim : dims()) {
    if (__builtin_mul_overflow(product, dim, &product)) {
      throw Error(ErrorCode::out_of_range, "shape " + to_string() + " has more than 2^63 values");
    }
  }
  return product;
}

Shape Shape::with(int axis, std::int64_t extent) const {
  if (axis < 0 || axis >= rank_ || extent < kUnknown) {
    throw Error(ErrorCode::invalid_argument, "no dimension " + std::to_string(axis) +
                                                 " of extent " + std::to_string(extent) +
                                                 " in shape " + to_string());
  }
  Shape result = *this;
  result.dims_[static_cast<std::size_t>(axis)] = extent;
  return result;
}

Shape Shape::prepend(std::int64_t extent) const {
  if (!has_rank()) return *this;
  if (rank_ == kMaxRank) {
    throw Error(ErrorCode::invalid_argument,
                "shape " + to_string() + " can't get one more dimension");
  }
  std::array<std::int64_t, kMaxRank> extents{extent};
  std::ranges::copy(dims(), extents.begin() + 1);
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank_) + 1));
}

Shape Shape::drop_front() const {
  if (!has_rank()) return *this;
  if (rank_ == 0) {
    throw Error(ErrorCode::invalid_argument, "a scalar has no outermost dimension");
  }
  return Shape(dims().subspan(1));
}

bool Shape::accepts(const Shape& concrete) const noexcept {
  if (rank_ < 0) return true;
  if (rank_ != concrete.rank_) return false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank_); ++i) {
    if (dims_[i] != kUnknown && dims_[i] != concrete.dims_[i]) return false;
  }
  return true;
}

Shape Shape::relax(const Shape& a, const Shape& b) {
  if (a.rank_ < 0 || a.rank_ != b.rank_) return unknown_rank();
  Shape result = a;
  for (std::size_t i = 0; i < a.dims().size(); ++i) {
    if (a.dims_[i] != b.dims_[i]) result.dims_[i] = kUnknown;
  }
  return result;
}

std::string Shape::to_string() const {
  if (!has_rank()) return "?";
  std::string text = "[";
  for (const std::int64_t dim : dims()) {
    if (text.size() > 1) text += ',';
    text += dim == kUnknown ? "?" : std::to_string(dim);
  }
  return text + "]";
}

}  // namespace penstock
