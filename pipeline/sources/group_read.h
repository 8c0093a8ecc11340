// Reading the bytes of a group of records from shards.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <penstock/source.h>

#include "pipeline/sources/shards.h"

namespace penstock {

/// A request for the bytes of one record, and the answer.
struct ReadPiece {
  std::size_t item = 0;  ///< a number that means something to the caller only
  std::size_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  /// Where the bytes are to go, as to the row of a batch. They go to a buffer if it is null, and
  /// nowhere if they are viewed.
  std::byte* out = nullptr;
  std::span<const std::byte> bytes{};
  BufferPtr owner{};  ///< keeps `bytes` alive; may be shared with neighbours
  Status status{};
  std::size_t request = 0;  ///< index of its request, while the group is read
};

/// Reads every piece and calls `arrived` for each, in another order. The call comes soon after the
/// bytes, while they are still in the CPU's caches.
///
/// Neighbours in a shard become one request and share a buffer of about 256 KiB; larger pieces have
/// buffers of their own, and those with an `out` none. Mapped files are viewed, not read. Shards on
/// a server are requested all at once. If a shard has changed since it was found, all its pieces
/// fail; views may fail after they arrived, and then arrive once more. Sorts `pieces`.
void read_pieces(const Shards& shards, std::span<ReadPiece> pieces, ReadContext& context,
                 const std::function<void(ReadPiece&)>& arrived);

/// Returns where in its buffer a record ends.
inline std::size_t end_of(std::span<const std::byte> record, const BufferPtr& buffer) noexcept {
  return static_cast<std::size_t>(record.data() - buffer->data()) + record.size();
}

/// Reads a piece that has just arrived once more, past every cache: bytes that look damaged may be
/// intact on the disk. Reads in place, unless the piece is a view of a mapped file.
void reread_piece(const Shards& shards, ReadPiece& piece, ReadContext& context);

}  // namespace penstock
