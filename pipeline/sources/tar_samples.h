// How the members of a tar shard make samples, as WebDataset groups them.
#pragma once

#include <string>
#include <string_view>

#include <penstock/limits.h>

#include "pipeline/sources/labels.h"
#include "pipeline/sources/offset_index.h"
#include "pipeline/sources/tar_format.h"

namespace penstock::tar_file {

/// What a member's name says. A name without an extension, or whose last part begins with a dot or
/// is __meta__, belongs to no sample: `key` is empty.
///
///     split_name("train/cat/0001.seg.PNG")   // key "train/cat/0001", extension "seg.png"
struct SplitName {
  std::string_view key;
  std::string extension;  ///< in lower case
};
SplitName split_name(std::string_view name);

/// Of one sample: more are an error of it.
inline constexpr std::size_t kMostMembers = 1000;

/// jpg, jpeg or png.
bool is_image(std::string_view extension) noexcept;

/// Finds the samples of a shard. An entry spans a sample's members with their headers, so that one
/// read brings all of it; a fault is a sample that can't be used: members of a key that do not
/// follow each other, an extension twice, a link, a device, more members or bytes than may be.
/// Behind a damaged header or the end of a truncated shard nothing is found: one fault. The first
/// note is the extensions of the first sound sample, by name and joined by '/' (empty: there is
/// none); the others are the classes that `rule` gives the samples.
ShardIndex scan_samples(File& file, const Limits& limits, const LabelRule& rule);

}  // namespace penstock::tar_file
