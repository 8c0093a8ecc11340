// Records of one size, one after the other in files: shared by the sources of CIFAR, IDX, npy and
// fixed records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/source.h>

#include "pipeline/sources/group_read.h"
#include "pipeline/sources/shards.h"

namespace penstock {

/// Rows of `row_bytes` bytes, numbered through all shards. If a shard ends within a row, or has
/// fewer rows than its header promises, it delivers its whole rows and then one record that fails
/// with data_loss: "truncated at byte N". Thread-safe once every shard was added.
class FixedRows {
 public:
  /// Makes an empty list of rows. Throws Error{out_of_range} if a row exceeds `limit`.
  FixedRows(std::shared_ptr<const Shards> shards, std::uint64_t row_bytes, std::uint64_t limit);

  /// Adds the rows of the next shard, which lie in [begin, end) of it: as many as `promised` or, if
  /// that is empty, as many as the bytes hold. REQUIRES: begin <= end <= the file's size. Throws
  /// Error{out_of_range} for more promised rows than bytes can address, and for more than
  /// `max_rows` if a row has no bytes.
  void add(std::uint64_t begin, std::uint64_t end, std::optional<std::uint64_t> promised,
           std::uint64_t max_rows);

  std::uint64_t size() const noexcept { return first_.back(); }
  std::uint64_t row_bytes() const noexcept { return row_bytes_; }
  const Shards& shards() const noexcept { return *shards_; }
  bool blocking() const { return shards_->open(0).file->blocking(); }
  Provenance locate(std::uint64_t index) const;
  void describe(Description& description) const;

  /// Reads rows. Calls `arrived` with the number of each item that is ok and the bytes of its row.
  /// Sets the status of items that can't be read.
  using Arrived = std::function<void(std::size_t item, const ReadPiece& piece)>;
  void read(std::span<ReadItem> items, ReadContext& context, const Arrived& arrived) const;
  /// Does the same if the rows of the only shard are in memory already. `owner` keeps them alive.
  void visit(std::span<ReadItem> items, std::span<const std::byte> rows, const BufferPtr& owner,
             const Arrived& arrived) const;

 private:
  struct Part {
    std::uint64_t begin;  ///< offset of the first row
    std::uint64_t whole;  ///< complete rows
    std::uint64_t end;    ///< where a truncated shard ends
  };
  std::size_t shard_of(std::uint64_t index) const noexcept;
  /// Returns where the row of item `i` lies. If it lies nowhere, sets the item's status.
  std::optional<ReadPiece> find(std::span<ReadItem> items, std::size_t i) const;

  std::shared_ptr<const Shards> shards_;
  std::uint64_t row_bytes_;
  std::vector<Part> parts_;
  // The number of each part's first record, and the number of all records.
  std::vector<std::uint64_t> first_{0};
};

/// Returns the bytes of a row of this shape, or UINT64_MAX if their number does not fit. That holds
/// for shapes that a zero makes empty too, so callers can multiply the dimensions without another
/// check. REQUIRES: row.is_static().
std::uint64_t row_bytes_of(DType dtype, const Shape& row) noexcept;

/// Reverses the bytes of each value.
void swap_bytes(std::span<std::byte> values, std::size_t value_size) noexcept;

/// Fills component `c` of the item from the bytes of its row. They go to the batch's row if it has
/// one. Otherwise the component is a view of the piece if possible. It is a copy in memory of its
/// own for values that must be swapped, that are not aligned, or that are bool (each is made 0 or
/// 1).
void place_row(ReadItem& item, std::size_t c, const ComponentSpec& spec, const ReadPiece& piece,
               bool swapped, ReadContext& context);

}  // namespace penstock
