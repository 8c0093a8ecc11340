// The file that keeps a shard's index.
#pragma once

#include <optional>
#include <string>

#include "pipeline/sources/offset_index.h"

namespace penstock {

/// Where the index of a shard is kept, or empty if nowhere: "-" as the folder, or beside a shard
/// that is not a file of this machine. Beside the data the name begins with a dot, so that no
/// pattern for shards matches it.
std::string index_path(const std::string& shard, const FileInfo& info, const IndexOptions& options);

/// Nothing unless the file is whole, was made for this kind, size and time, and is what a scan
/// could have found. Where its records lie is still anybody's word: whoever reads them must not
/// trust it.
std::optional<ShardIndex> load_index(const std::string& path, const FileInfo& shard,
                                     const IndexOptions& options) noexcept;
/// False if it can't be written.
bool save_index(const std::string& path, const FileInfo& shard, const std::string& kind,
                const ShardIndex& index) noexcept;

}  // namespace penstock
