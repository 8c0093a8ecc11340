// Hashes of the contents of files, which tell data sets apart that have the same names and sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <penstock/description.h>
#include <penstock/file_system.h>

#include "pipeline/sources/index_place.h"

namespace penstock {

/// Files, by number. Many threads call the functions.
struct ListedFiles {
  std::size_t count = 0;
  std::function<std::string(std::size_t)> path;
  std::function<FileInfo(std::size_t)> info;
};

/// Returns a hash of the contents of each file. It is the same on every machine, so that a data set
/// may be moved or copied. Files of up to 384 KiB are hashed whole. The hash of a larger file
/// covers the first and the last 64 KiB and 64 blocks of 4 KiB. A change elsewhere is seen only in
/// a file that this machine knows: if its inode is known and its ctime changed, it is hashed whole.
/// The value of a remote file is its version. It is 0 if the server reports none.
///
/// `folder` keeps the known files. "-" or empty: none are known or kept. Throws as FileSystem::open
/// does, and Error{data_loss} if a file is no longer the listed one.
std::vector<std::uint64_t> hash_contents(FileSystem& files, const ListedFiles& list,
                                         const std::string& folder = default_index_folder());

/// Adds the contents of some files, spread evenly over the list. Works like the functions above.
void describe_some_contents(Description& description, FileSystem& files, const ListedFiles& list,
                            const std::function<std::string(std::size_t)>& name);

/// Adds the contents of up to 64 ranges of neighbouring files to `description`. `hash(i)` is that
/// of a file, and `name(i)` its name relative to the data set.
void describe_contents(Description& description, std::size_t count,
                       const std::function<std::string(std::size_t)>& name,
                       const std::function<std::uint64_t(std::size_t)>& hash);

}  // namespace penstock
