// Index files of sources, for tests that change them.
#pragma once

#include <cstring>
#include <string>

#include "pipeline/sources/contents.h"
#include "pipeline/sources/index_file.h"
#include "pipeline/sources/index_place.h"
#include "tests/support/files.h"

namespace penstock::test {

/// The size from which a source keeps its index in a folder.
inline constexpr std::size_t kIndexedBytes = 5 << 20;

inline std::string kept_index(const std::string& shard, const FileInfo& info,
                              const std::string& folder) {
  return index_path(shard, info, {.folder = folder});
}

/// Returns what the index of a file has to be for.
inline ShardContents shard_contents(FileSystem& files, const std::string& path) {
  const FileInfo info = files.info(path);
  const ListedFiles list{1, [&](std::size_t) { return path; }, [&](std::size_t) { return info; }};
  return {info.size, hash_contents(files, list, "-")[0]};
}

/// Returns the kind that an index file names.
inline std::string kind_of_index(const std::string& path) {
  const std::string file = read_file(path);
  std::uint64_t size = 0;
  std::memcpy(&size, file.substr(24, sizeof(size)).data(), sizeof(size));
  return file.substr(32, size);
}

}  // namespace penstock::test
