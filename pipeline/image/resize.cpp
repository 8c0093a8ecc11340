#include "pipeline/image/resize.h"

#include <algorithm>
#include <new>

namespace penstock::image {

namespace {

/// Makes `memory` at least `size` values large. New memory is zero, because padding is read, though
/// never used.
template <typename T>
void grow(hwy::AlignedFreeUniquePtr<T[]>& memory, std::size_t& have, std::size_t size) {
  if (have >= size) return;
  memory = hwy::AllocateAligned<T>(size);
  have = memory ? size : 0;
  if (!memory) throw std::bad_alloc();
  std::fill_n(memory.get(), size, T{0});
}

}  // namespace

void Resizer::begin(const Axis& rows, const Axis& columns, int channels) {
  rows_.build(rows, row_precision(scaling_of(rows).scale));
  columns_.build(columns, Precision::exact);
  horizontal_.prepare(columns_, channels);
  vertical_ = vertical_pass(rows_);
  plane_ = plane_width(columns_.count());
  width_ = planes_width(columns_.count(), channels);
  pushed_ = 0;
  popped_ = 0;
  taps_.resize(static_cast<std::size_t>(rows_.taps()));
  grow(ring_, ring_size_, width_ * taps_.size());
  grow(out_, out_size_, width_);
}

std::size_t Resizer::bytes() const noexcept {
  const auto filter = [](const Filter& one) {
    return static_cast<std::size_t>(one.count()) * (static_cast<std::size_t>(one.taps()) + 8);
  };
  return sizeof(std::int16_t) * ring_size_ + out_size_ +
         2 * sizeof(std::int16_t) * (filter(rows_) + filter(columns_));
}

std::uint64_t Resizer::bytes_for(const Rect& crop, Size target, const Rect& window,
                                 int denominator) noexcept {
  // A triangle spans twice the scale, and at least one sample to each side. Round up to whole
  // vectors.
  const auto taps = [denominator](int from, int to) {
    const int scale = from / (std::max(to, 1) * denominator) + 1;
    return static_cast<std::uint64_t>(2 * scale + 1 + 16);
  };
  const std::uint64_t down = taps(crop.height, target.height);
  const std::uint64_t across = taps(crop.width, target.width);
  const auto height = static_cast<std::uint64_t>(std::max(window.height, 0));
  const auto width = static_cast<std::uint64_t>(std::max(window.width, 0));
  // The columns' weights are stored twice: the second copy is in the order of the vectors.
  return sizeof(std::int16_t) * (down * planes_width(static_cast<int>(width), 3) + down * height +
                                 4 * across * width) +
         planes_width(static_cast<int>(width), 3) + sizeof(std::int32_t) * (height + width);
}

std::int16_t* Resizer::slot(int source_row) noexcept {
  return ring_.get() + static_cast<std::size_t>(source_row % rows_.taps()) * width_;
}

void Resizer::push(const std::uint8_t* row) {
  horizontal_.run(row, slot(pushed_++));
}

PlanarRow Resizer::pop() {
  if (popped_ == rows_.count()) return {};
  const int first = rows_.first(popped_) - rows_.span_begin();
  if (pushed_ < first + rows_.taps()) return {};
  for (int t = 0; t < rows_.taps(); ++t) taps_[static_cast<std::size_t>(t)] = slot(first + t);
  vertical_(rows_, popped_, taps_.data(), width_, out_.get());
  ++popped_;
  return {out_.get(), plane_};
}

}  // namespace penstock::image
