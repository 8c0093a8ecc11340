// The contents on disk of a cache for data on servers, seen from outside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock::test {

/// Returns the files of blocks, sorted.
inline std::vector<std::filesystem::path> cached_blocks(const std::string& folder) {
  std::vector<std::filesystem::path> blocks;
  if (!std::filesystem::exists(folder)) return blocks;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename().string().size() == 30)
      blocks.push_back(entry.path());
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

/// Returns the bytes of all blocks, including the block that is being written.
inline std::uint64_t bytes_of_blocks(const std::string& folder) {
  std::vector<std::filesystem::path> all = cached_blocks(folder);
  all.emplace_back(folder + "/writing");
  std::uint64_t bytes = 0;
  for (const std::filesystem::path& path : all) {
    std::error_code gone;
    const std::uint64_t size = std::filesystem::file_size(path, gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

}  // namespace penstock::test
