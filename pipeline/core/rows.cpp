#include "pipeline/core/rows.h"

#include <algorithm>
#include <functional>

#include "pipeline/core/sizes.h"

namespace penstock {

Element make_rows(const Spec& spec, const Names* names, std::size_t count, ReadContext& memory) {
  Element rows;
  rows.start(names);
  for (const ComponentSpec& component : spec) {
    const Shape shape = component.shape.prepend(static_cast<std::int64_t>(count));
    BufferPtr owner = memory.allocate(std::max<std::size_t>(bytes_of(component.dtype, shape), 1));
    std::byte* const data = owner->data();
    rows.append(component.dtype, shape, data, std::move(owner));
  }
  return rows;
}

Element rows_from(const Element& rows, std::size_t first, std::size_t count) {
  const auto start = static_cast<std::int64_t>(first);
  Element some;
  some.start(rows.names());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    some.append(rows[i].slice(0, start, start + static_cast<std::int64_t>(count)));
  }
  return some;
}

bool lies_in(const Tensor& value, const std::byte* begin, std::size_t bytes) noexcept {
  const std::less<> before;  // also orders pointers to different allocations
  return !before(value.data(), begin) && before(value.data(), begin + bytes);
}

void Columns::renew(const Column& column, std::size_t row, Tensor& value) {
  if (column.stride > Tensor::kInlineBytes) {
    value = Tensor(column.dtype, column.shape, column.at(row), column.owner);
  } else {
    value = Tensor(column.dtype, column.shape, nullptr, BufferPtr());
    std::memcpy(value.mutable_data(), column.at(row), column.stride);
  }
}

bool Columns::alike(const Columns& other) const noexcept {
  return names_ == other.names_ &&
         std::equal(columns_.begin(), columns_.end(), other.columns_.begin(), other.columns_.end(),
                    [](const Column& a, const Column& b) {
                      return a.dtype == b.dtype && a.shape == b.shape;
                    });
}

Columns::Columns(const Element& rows) : names_(rows.names()) {
  columns_.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tensor& all = rows[i];
    const Shape shape = all.shape().drop_front();
    const std::size_t stride = static_cast<std::size_t>(shape.volume()) * size_of(all.dtype());
    // The memory may be written, because an element's values belong to its holder.
    auto* const base = const_cast<std::byte*>(all.data());
    columns_.push_back({all.dtype(), shape, base, stride, all.owner()});
  }
  first_ = columns_.data();
  last_ = first_ + columns_.size();
}

}  // namespace penstock
