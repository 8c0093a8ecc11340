// Reading records of a source through its index.
#pragma once

#include <functional>
#include <span>

#include <penstock/source.h>

#include "pipeline/sources/group_read.h"
#include "pipeline/sources/offset_index.h"

namespace penstock {

/// Reads each item's bytes as read_pieces does, and calls `deliver` for those that came. An item
/// whose record is a fault of the index, or can't be read, gets that status, with its provenance.
/// Items that failed before are skipped.
void read_records(const Shards& shards, const OffsetIndex& index, std::span<ReadItem> items,
                  ReadContext& context, const std::function<void(ReadPiece&, ReadItem&)>& deliver);

/// Does the same for records without items. `deliver` and `fail` get the record's position in
/// `indices`.
void read_records(const Shards& shards, const OffsetIndex& index,
                  std::span<const std::uint64_t> indices, ReadContext& context,
                  const std::function<void(std::size_t, ReadPiece&)>& deliver,
                  const std::function<void(std::size_t, const Error&)>& fail);

/// Returns where record number `record` lies.
Provenance locate_record(const Shards& shards, const OffsetIndex& index, std::uint64_t record);

}  // namespace penstock
