#include "pipeline/sources/indexed_read.h"

#include <vector>

namespace penstock {

void read_records(const Shards& shards, const OffsetIndex& index, std::span<ReadItem> items,
                  ReadContext& context, const std::function<void(Piece&, ReadItem&)>& deliver) {
  thread_local std::vector<Piece> pieces;
  pieces.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].status.ok()) continue;
    const OffsetIndex::Position at = index.find(items[i].index);
    if (const IndexFault* fault = index.fault(at)) {
      items[i].status =
          Error(fault->code, fault->cause, locate_record(shards, index, items[i].index));
      continue;
    }
    const IndexEntry& entry = index.entry(at);
    pieces.push_back({.item = i, .shard = at.shard, .offset = entry.offset, .size = entry.size});
  }
  read_pieces(shards, pieces, context, [&](Piece& piece) {
    ReadItem& item = items[piece.item];
    if (piece.status.ok()) return deliver(piece, item);
    const Error& error = piece.status.error();
    item.status = Error(error.code(), error.cause(), locate_record(shards, index, item.index));
  });
  pieces.clear();
}

Provenance locate_record(const Shards& shards, const OffsetIndex& index, std::uint64_t record) {
  const OffsetIndex::Position at = index.find(record);
  return {.shard = shards.path(at.shard),
          .offset = static_cast<std::int64_t>(index.entry(at).offset),
          .index = static_cast<std::int64_t>(record),
          .stage = {},
          .length = static_cast<std::int64_t>(index.entry(at).size)};
}

}  // namespace penstock
