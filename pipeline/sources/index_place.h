// The place where the index of a shard is stored.
#pragma once

#include <string>

#include "pipeline/sources/offset_index.h"

namespace penstock {

/// Returns the folder that an empty `IndexOptions::folder` means: $PENSTOCK_INDEX_DIR, else
/// $XDG_CACHE_HOME/penstock, else ~/.cache/penstock. Returns "-" if there is no home folder.
std::string default_index_folder();

/// Returns the path of a shard's index, or an empty path if the index is stored nowhere. Shards
/// below `least_cached_bytes` have no stored index. Unless a folder was named, this also holds for
/// shards that are neither files of this machine nor objects whose version a server reports. No
/// index is stored next to data of http:// and https://.
///
/// In a folder, the name contains a hash of the shard's real path, so that shards of one name do
/// not collide. Next to the data, the name begins with a dot, so that no pattern for shards matches
/// it.
std::string index_path(const std::string& shard, const FileInfo& info, const IndexOptions& options);

/// Returns the path of an index that an earlier run may have stored next to the data. Empty if
/// there can be none, or if `IndexOptions::folder` names a place.
std::string index_beside(const std::string& shard, const FileInfo& info,
                         const IndexOptions& options);

/// Makes the folder of such a path if it is missing, readable by this user only. Returns false if
/// that fails.
bool make_index_folder(const std::string& path) noexcept;

}  // namespace penstock
