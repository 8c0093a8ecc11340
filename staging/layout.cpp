#include "staging/layout.h"

#include <algorithm>

namespace penstock {
namespace {

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = Allocator::kAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

[[noreturn]] void misfit(const BatchLayout::Part& part, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "component " + part.row.name + ": " + why);
}

[[noreturn]] void too_large(const BatchLayout::Part& part, std::size_t wanted,
                            const std::string& what) {
  throw Error(ErrorCode::out_of_range, "component " + part.row.name + ": the batch has " +
                                           std::to_string(wanted) + " bytes of " + what +
                                           ", and a slot has room for " +
                                           std::to_string(part.capacity) +
                                           " (max_bytes); raise that, or drop the component");
}

}  // namespace

std::string text_of(const DeviceTensor& tensor) {
  return std::string(name_of(tensor.dtype)) + " " + tensor.shape.to_string();
}

BatchLayout::BatchLayout(const Spec& batches, std::int64_t rows, std::uint64_t max_bytes)
    : rows_(rows) {
  std::vector<std::string> names;
  for (const ComponentSpec& component : batches) {
    names.push_back(component.name);
    Part& part = parts_.emplace_back();
    part.row = component;
    std::int64_t most = rows;  // of its rows; unknown: 0 or less
    if (component.shape.has_rank()) {
      if (component.shape.rank() == 0) misfit(part, "a scalar has no rows; stage batches");
      part.row.shape = component.shape.drop_front();
      if (rows == 0) most = component.shape[0];
    }
    part.sized = !part.is_text() && part.row.shape.is_static() && (rows > 0 || most >= 0);
    if (!part.sized) {
      fixed_ = false;
      part.capacity = max_bytes;
      if (max_bytes > 0) continue;
      misfit(part,
             "of dtype " + std::string(name_of(part.row.dtype)) + " and shape " +
                 part.row.shape.to_string() +
                 ", so that its size is not known before, and max_bytes is 0: say how many, or "
                 "drop the component");
    }
    part.capacity = static_cast<std::size_t>(part.row.shape.volume()) * size_of(part.row.dtype) *
                    static_cast<std::size_t>(most);
    part.offset = bytes_;
    bytes_ += aligned(part.capacity);
  }
  for (Part& part : parts_) {
    if (part.sized) continue;
    part.offset = bytes_;
    if (part.is_text()) {
      // One string for each row, unless each row has several.
      const std::int64_t each = part.row.shape.is_static() ? part.row.shape.volume() : 0;
      const std::size_t strings = each > 0 && rows > 0 ? static_cast<std::size_t>(each * rows)
                                                       : part.capacity / sizeof(std::uint64_t);
      part.offsets_bytes = (strings + 1) * sizeof(std::uint64_t);
      part.text_offset = part.offset + aligned(part.offsets_bytes);
      bytes_ = part.text_offset;
    }
    bytes_ += aligned(part.capacity);
  }
  bytes_ = std::max(bytes_, Allocator::kAlignment);
  names_ = Names::intern(names);
}

void BatchLayout::check_component(std::span<const Piece> pieces, std::size_t c) const {
  const Part& part = parts_[c];
  std::size_t bytes = 0;
  std::size_t strings = 0;
  for (const Piece& piece : pieces) {
    const Tensor& tensor = piece.batch[c];
    const Rows rows = rows_in(piece, tensor);
    if (!part.is_text()) {
      bytes += bytes_of(tensor, rows).size();
      if (!(tensor.shape().drop_front() == pieces[0].batch[c].shape().drop_front()))
        misfit(part, "rows of different shapes can't be put together");
      continue;
    }
    const std::int64_t each = tensor.shape().drop_front().volume();
    strings += static_cast<std::size_t>(each * rows.count);
    for (std::int64_t i = each * rows.first; i < each * (rows.first + rows.count); ++i)
      bytes += tensor.bytes_at(i).size();
  }
  if (part.is_text() && (strings + 1) * sizeof(std::uint64_t) > part.offsets_bytes)
    too_large(part, strings * sizeof(std::uint64_t), "offsets");
  if (bytes > part.capacity) too_large(part, bytes, part.is_text() ? "text" : "values");
}

void BatchLayout::check(std::span<const Piece> pieces, std::int64_t padded_rows) const {
  std::int64_t total = 0;
  for (const Piece& piece : pieces) {
    total += piece.count;
    const Element& batch = piece.batch;
    if (batch.names() != names_) {
      throw Error(ErrorCode::invalid_argument,
                  "the batch's components are not those that the staging area was made for");
    }
    for (std::size_t c = 0; c < parts_.size(); ++c) {
      const Tensor& tensor = batch[c];
      const Part& part = parts_[c];
      if (tensor.dtype() != part.row.dtype || tensor.rank() == 0 || !tensor.contiguous() ||
          !part.row.shape.accepts(tensor.shape().drop_front()) || piece.first < 0 ||
          piece.count < 0 || (!piece.whole && piece.first + piece.count > tensor.dim(0))) {
        misfit(part, "rows " + std::to_string(piece.first) + " to " +
                         std::to_string(piece.first + piece.count) + " of " +
                         std::string(name_of(tensor.dtype())) + " " + tensor.shape().to_string() +
                         " are no rows of " + std::string(name_of(part.row.dtype)) + " " +
                         part.row.shape.to_string());
      }
    }
  }
  if (rows_ > 0 && std::max(total, padded_rows) > rows_) {
    throw Error(ErrorCode::out_of_range,
                "the batch has " + std::to_string(std::max(total, padded_rows)) +
                    " rows, and a slot has room for " + std::to_string(rows_));
  }
  for (std::size_t c = 0; c < parts_.size(); ++c) {
    if (!parts_[c].sized || rows_ == 0) check_component(pieces, c);
  }
}

void CopyList::add(const Copy& copy, const Buffer* owner) {
  if (copy.bytes == 0) return;
  if (!copies_.empty() && owner != nullptr && owner == owner_) {
    Copy& last = copies_.back();
    const auto* to = static_cast<const std::byte*>(copy.to);
    const auto* from = static_cast<const std::byte*>(copy.from);
    const auto* to_end = static_cast<const std::byte*>(last.to) + last.bytes;
    const auto* from_end = static_cast<const std::byte*>(last.from) + last.bytes;
    // The copy may include the padding between components.
    if (to >= to_end && to - to_end == from - from_end &&
        static_cast<std::size_t>(to - to_end) < Allocator::kAlignment) {
      last.bytes += copy.bytes + static_cast<std::size_t>(to - to_end);
      return;
    }
  }
  copies_.push_back(copy);
  owner_ = owner;
}

Rows rows_in(const Piece& piece, const Tensor& component) {
  return piece.whole ? Rows{0, component.dim(0)} : Rows{piece.first, piece.count};
}

std::span<const std::byte> bytes_of(const Tensor& tensor, Rows rows) {
  const std::int64_t all = tensor.dim(0);
  const std::size_t row = all > 0 ? tensor.nbytes() / static_cast<std::size_t>(all) : 0;
  return {tensor.data() + row * static_cast<std::size_t>(rows.first),
          row * static_cast<std::size_t>(rows.count)};
}

}  // namespace penstock
