#include "pipeline/sources/fixed_rows.h"

#include <algorithm>
#include <cstring>

namespace penstock {

FixedRows::FixedRows(std::shared_ptr<const Shards> shards, std::uint64_t row_bytes,
                     std::uint64_t limit)
    : shards_(std::move(shards)), row_bytes_(row_bytes) {
  if (row_bytes > limit) {
    throw Error(ErrorCode::out_of_range,
                "records of " + std::to_string(row_bytes) + " bytes exceed the limit of " +
                    std::to_string(limit),
                {.shard = shards_->path(0), .stage = {}});
  }
}

void FixedRows::add(std::uint64_t begin, std::uint64_t end, std::optional<std::uint64_t> promised,
                    std::uint64_t max_rows) {
  std::uint64_t bytes = 0;
  const bool too_many =
      promised && (row_bytes_ == 0 ? *promised > max_rows
                                   : __builtin_mul_overflow(*promised, row_bytes_, &bytes));
  if (too_many) {
    throw Error(ErrorCode::out_of_range,
                "the header promises " + std::to_string(*promised) + " records of " +
                    std::to_string(row_bytes_) + " bytes",
                {.shard = shards_->path(parts_.size()), .stage = {}});
  }
  const std::uint64_t fit = row_bytes_ == 0 ? promised.value_or(0) : (end - begin) / row_bytes_;
  const std::uint64_t whole = std::min(fit, promised.value_or(fit));
  const bool cut = promised ? whole < *promised : begin + whole * row_bytes_ < end;
  parts_.push_back({begin, whole, end});
  first_.push_back(first_.back() + whole + (cut ? 1 : 0));
}

std::size_t FixedRows::shard_of(std::uint64_t index) const noexcept {
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  return static_cast<std::size_t>(next - first_.begin()) - 1;
}

Provenance FixedRows::locate(std::uint64_t index) const {
  const std::size_t shard = shard_of(index);
  const std::uint64_t row = index - first_[shard];
  return {.shard = shards_->path(shard),
          .offset = static_cast<std::int64_t>(parts_[shard].begin + row * row_bytes_),
          .index = static_cast<std::int64_t>(index),
          .stage = {},
          .length = static_cast<std::int64_t>(row_bytes_)};
}

void FixedRows::describe(Description& description) const {
  shards_->describe(description);
}

std::optional<ReadPiece> FixedRows::find(std::span<ReadItem> items, std::size_t i) const {
  if (!items[i].status.ok()) return std::nullopt;
  const std::size_t shard = shard_of(items[i].index);
  const std::uint64_t row = items[i].index - first_[shard];
  const Part& part = parts_[shard];
  if (row < part.whole) {
    return ReadPiece{
        .item = i, .shard = shard, .offset = part.begin + row * row_bytes_, .size = row_bytes_};
  }
  items[i].status = Status(ErrorCode::data_loss, "truncated at byte " + std::to_string(part.end) +
                                                     ", within a record of " +
                                                     std::to_string(row_bytes_) + " bytes");
  return std::nullopt;
}

namespace {

void deliver(std::span<ReadItem> items, const ReadPiece& piece, const FixedRows::Arrived& arrived) {
  Status& status = items[piece.item].status;
  status = piece.status;
  if (!status.ok()) return;
  try {
    arrived(piece.item, piece);
  } catch (...) {
    status = status_from_current_exception();
  }
}

}  // namespace

void FixedRows::read(std::span<ReadItem> items, ReadContext& context,
                     const Arrived& arrived) const {
  thread_local std::vector<ReadPiece> pieces;
  pieces.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (std::optional<ReadPiece> piece = find(items, i)) pieces.push_back(*std::move(piece));
  }
  read_pieces(*shards_, pieces, context, [&](ReadPiece& piece) { deliver(items, piece, arrived); });
  pieces.clear();
}

void FixedRows::visit(std::span<ReadItem> items, std::span<const std::byte> rows,
                      const BufferPtr& owner, const Arrived& arrived) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::optional<ReadPiece> piece = find(items, i);
    if (!piece) continue;
    piece->bytes = rows.subspan(piece->offset - parts_[0].begin, piece->size);
    piece->owner = owner;
    deliver(items, *piece, arrived);
  }
}

std::uint64_t row_bytes_of(DType dtype, const Shape& row) noexcept {
  std::uint64_t bytes = size_of(dtype);
  bool empty = false;
  for (const std::int64_t dim : row.dims()) {
    empty = empty || dim == 0;
    const auto extent = static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 1));
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > INT64_MAX) return UINT64_MAX;
  }
  return empty ? 0 : bytes;
}

void swap_bytes(std::span<std::byte> values, std::size_t value_size) noexcept {
  for (; values.size() >= value_size; values = values.subspan(value_size)) {
    std::ranges::reverse(values.first(value_size));
  }
}

void place_row(ReadItem& item, std::size_t c, const ComponentSpec& spec, const ReadPiece& piece,
               bool swapped, ReadContext& context) {
  std::byte* place = item.row ? item.row.data(c) : nullptr;
  const bool boolean = spec.dtype == DType::boolean;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(piece.bytes.data()) % size_of(spec.dtype) == 0;
  if (place == nullptr && !swapped && !boolean && aligned && piece.owner) {
    item.element[c] =
        Tensor(spec.dtype, spec.shape, const_cast<std::byte*>(piece.bytes.data()), piece.owner);
    return;
  }
  BufferPtr owner;
  if (place == nullptr) {
    owner = context.allocate(piece.size);
    place = owner->data();
  }
  if (piece.size > 0) std::memcpy(place, piece.bytes.data(), piece.size);
  if (swapped) swap_bytes({place, piece.size}, size_of(spec.dtype));
  // Reading a bool that is neither 0 nor 1 would be undefined behaviour.
  if (boolean) {
    for (std::byte& value : std::span(place, piece.size)) {
      value = static_cast<std::byte>(value != std::byte{0});
    }
  }
  item.element[c] = Tensor(spec.dtype, spec.shape, place, std::move(owner));
}

}  // namespace penstock
