// Reading the bytes of a group of records from shards.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <penstock/source.h>

#include "pipeline/sources/shards.h"

namespace penstock {

/// The bytes of one record: where they are, and the answer.
struct ReadPiece {
  std::size_t item = 0;  ///< the caller's number for it
  std::size_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::span<const std::byte> bytes{};
  BufferPtr owner{};  ///< keeps `bytes` alive; shared with neighbours
  Status status{};
  std::size_t request = 0;  ///< of the group, while it is read
};

/// Reads every piece and calls `arrived` for each (in another order), soon after its bytes came, so
/// that they are still in the CPU's caches. Neighbours in a shard are one request and share a
/// buffer of about 256 KiB; larger pieces have their own. Mapped files are viewed, not read. All
/// pieces of a shard that has changed since it was found fail. Sorts `pieces`.
void read_pieces(const Shards& shards, std::span<ReadPiece> pieces, ReadContext& context,
                 const std::function<void(ReadPiece&)>& arrived);

/// Reads one piece that has just arrived again, past every cache: bytes that look damaged may be
/// sound on the disk. In place, unless the piece is a view of a mapped file.
void reread_piece(const Shards& shards, ReadPiece& piece, ReadContext& context);

}  // namespace penstock
