// The file that holds a shard's index.
#pragma once

#include <optional>
#include <string>

#include "pipeline/sources/offset_index.h"

namespace penstock {

/// Reads an index. Returns nothing unless the file is complete, was made for this kind, size and
/// time, and holds what a scan could have found. The places of its records may still be wrong, so
/// readers must not trust them.
std::optional<ShardIndex> load_index(const std::string& path, const FileInfo& shard,
                                     const IndexOptions& options) noexcept;
/// Writes an index. Returns false if it can't be written.
bool save_index(const std::string& path, const FileInfo& shard, const std::string& kind,
                const ShardIndex& index) noexcept;

}  // namespace penstock
