// Memory that holds elements one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <boost/container/small_vector.hpp>

#include <penstock/element.h>
#include <penstock/source.h>
#include <penstock/spec.h>

namespace penstock {

/// Allocates uninitialised memory for `count` elements: each component has the shape [count, ...].
/// `names` are the names in the spec. Throws what `memory.allocate` throws. REQUIRES:
/// spec.is_fixed_size().
Element make_rows(const Spec& spec, const Names* names, std::size_t count, ReadContext& memory);

/// Returns a view of the rows [first, first + count) of every component. Copies nothing.
Element rows_from(const Element& rows, std::size_t first, std::size_t count);

/// True if the value's data begins within that memory.
bool lies_in(const Tensor& value, const std::byte* begin, std::size_t bytes) noexcept;

/// Access to single rows of several elements stored one after another: a view of the components of
/// `rows`. Each has the shape [n, ...] and is contiguous.
class Columns {
 public:
  explicit Columns(const Element& rows);
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  /// True if both have the same components.
  bool alike(const Columns& other) const noexcept;

  /// Makes `out` the element in that row. Small values are copied, others are views.
  void get(std::size_t row, Element& out) const {
    out.start(names_);
    for (const Column* column = first_; column != last_; ++column) {
      renew(*column, row, out.append());
    }
  }

  /// Does the same at less cost. REQUIRES: `out` was last passed to `put` of columns that are
  /// alike.
  void renew(std::size_t row, Element& out) const {
    out.valid_rows = -1;
    std::size_t i = 0;
    for (const Column* column = first_; column != last_; ++column) {
      Tensor& value = out[i++];
      if (column->stride == kWord && value.is_inline()) [[likely]] {
        copy_word(value.mutable_data(), column->at(row));
      } else {
        renew(*column, row, value);
      }
    }
  }

  /// Copies the element to that row. Returns false if its components differ; the row is then
  /// undefined.
  bool put(std::size_t row, const Element& element) const noexcept {
    if (element.names() != names_) return false;
    std::size_t i = 0;
    for (const Column* column = first_; column != last_; ++column) {
      const Tensor& value = element[i++];
      if (value.dtype() != column->dtype || !value.contiguous() ||
          !(value.shape() == column->shape)) {
        return false;
      }
      if (column->stride == kWord) [[likely]] {
        copy_word(column->at(row), value.data());
      } else {
        std::memmove(column->at(row), value.data(), column->stride);
      }
    }
    return true;
  }

 private:
  // Most values of small elements have this size, for which a function call costs too much.
  static constexpr std::size_t kWord = 8;
  static void copy_word(std::byte* to, const std::byte* from) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    std::memcpy(to, &word, sizeof(word));
  }

  struct Column {
    DType dtype;
    Shape shape;  // of one value
    std::byte* base;
    std::size_t stride;  // bytes from row to row
    BufferPtr owner;

    std::byte* at(std::size_t row) const noexcept { return base + stride * row; }
  };
  static void renew(const Column& column, std::size_t row, Tensor& value);

  const Names* names_;
  boost::container::small_vector<Column, 4> columns_;
  const Column* first_;
  const Column* last_;
};

}  // namespace penstock
