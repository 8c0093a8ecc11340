// Reading records of an indexed source by their index.
#pragma once

#include <functional>
#include <span>

#include <penstock/source.h>

#include "pipeline/sources/group_read.h"
#include "pipeline/sources/offset_index.h"

namespace penstock {

/// Reads each item's bytes as read_pieces does and calls `deliver` for those that came; an item
/// whose record is a fault of the index, or could not be read, gets its status, with its
/// provenance. Items that have failed before are left alone.
void read_records(const Shards& shards, const OffsetIndex& index, std::span<ReadItem> items,
                  ReadContext& context, const std::function<void(ReadPiece&, ReadItem&)>& deliver);

/// The same of records without items: `deliver` and `fail` are told the number of the record in
/// `indices`.
void read_records(const Shards& shards, const OffsetIndex& index,
                  std::span<const std::uint64_t> indices, ReadContext& context,
                  const std::function<void(std::size_t, ReadPiece&)>& deliver,
                  const std::function<void(std::size_t, const Error&)>& fail);

/// Where the record `index` lies.
Provenance locate_record(const Shards& shards, const OffsetIndex& index, std::uint64_t record);

}  // namespace penstock
