// Records of one size, one after the other in files: what CIFAR, IDX, npy and fixed records share.
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

/// Rows of `row_bytes` bytes in the shards, counted through. A shard that ends within a row, or has
/// fewer than its header promises, delivers its whole rows and then one record that fails with
/// data_loss: "truncated at byte N". Thread-safe once every shard was added.
class FixedRows {
 public:
  /// Throws Error{out_of_range} if a row exceeds `limit`.
  FixedRows(std::shared_ptr<const Shards> shards, std::uint64_t row_bytes, std::uint64_t limit);

  /// The next shard's rows: as many as `promised` (nothing: as the bytes hold) in [begin, end) of
  /// it. REQUIRES: begin <= end <= the file's size. Throws Error{out_of_range} for more promised
  /// rows than bytes can address, or than `max_rows` if a row has no bytes.
  void add(std::uint64_t begin, std::uint64_t end, std::optional<std::uint64_t> promised,
           std::uint64_t max_rows);

  std::uint64_t size() const noexcept { return first_.back(); }
  std::uint64_t row_bytes() const noexcept { return row_bytes_; }
  const Shards& shards() const noexcept { return *shards_; }
  bool blocking() const { return shards_->open(0).file->blocking(); }
  Provenance locate(std::uint64_t index) const;
  void describe(Description& description) const;

  /// Calls `arrived` with the number of each item that is ok and its row's bytes; sets the status
  /// of those that can't be read.
  using Arrived = std::function<void(std::size_t item, const ReadPiece& piece)>;
  void read(std::span<ReadItem> items, ReadContext& context, const Arrived& arrived) const;
  /// The same where the rows of the only shard are in memory already, kept alive by `owner`.
  void visit(std::span<ReadItem> items, std::span<const std::byte> rows, const BufferPtr& owner,
             const Arrived& arrived) const;

 private:
  struct Part {
    std::uint64_t begin;  ///< offset of the first row
    std::uint64_t whole;  ///< rows that are there
    std::uint64_t end;    ///< where the shard is cut, if it is
  };
  std::size_t shard_of(std::uint64_t index) const noexcept;
  /// Where the row of item `i` is; sets the item's status if it isn't.
  std::optional<ReadPiece> find(std::span<ReadItem> items, std::size_t i) const;

  std::shared_ptr<const Shards> shards_;
  std::uint64_t row_bytes_;
  std::vector<Part> parts_;
  std::vector<std::uint64_t> first_{0};  // record number of each part's first, and one more
};

/// Bytes of a row of this shape; UINT64_MAX if they can't be counted, even in a shape that a zero
/// makes empty: nobody has to multiply such dimensions again. REQUIRES: row.is_static().
std::uint64_t row_bytes_of(DType dtype, const Shape& row) noexcept;

/// Reverses the bytes of each value.
void swap_bytes(std::span<std::byte> values, std::size_t value_size) noexcept;

/// Component `c` of the item from its row's bytes: in the batch's row if there is one, else a view
/// of the piece, else (values to be swapped, not aligned, or bool, which is made 0 or 1) a copy in
/// memory of its own.
void place_row(ReadItem& item, std::size_t c, const ComponentSpec& spec, const ReadPiece& piece,
               bool swapped, ReadContext& context);

}  // namespace penstock
