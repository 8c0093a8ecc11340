// The file that holds a shard's index.
#pragma once

#include <optional>
#include <string>

#include "pipeline/sources/offset_index.h"

namespace penstock {

/// The shard that an index is for.
struct ShardContents {
  std::uint64_t size = 0;
  std::uint64_t hash = 0;  ///< see hash_contents
};

/// Reads an index. Returns nothing unless the file is complete, was made for this kind, size and
/// contents, and holds what a scan could have found. The places of its records may still be wrong,
/// so readers must not trust them.
std::optional<ShardIndex> load_index(const std::string& path, const ShardContents& shard,
                                     const IndexOptions& options) noexcept;
/// Writes an index. Returns false if it can't be written.
bool save_index(const std::string& path, const ShardContents& shard, const std::string& kind,
                const ShardIndex& index) noexcept;

}  // namespace penstock
