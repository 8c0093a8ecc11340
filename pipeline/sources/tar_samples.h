// The rules by which members of a tar shard make samples, as in WebDataset.
#pragma once

#include <string>
#include <string_view>

#include <penstock/limits.h>

#include "pipeline/sources/labels.h"
#include "pipeline/sources/offset_index.h"
#include "pipeline/sources/tar_format.h"

namespace penstock::tar_file {

/// The parts of a member's name. `key` is empty if the member belongs to no sample. This is so for
/// a name without an extension, and if its last part begins with a dot, or begins and ends with
/// "__" as "__meta__" does.
///
///     split_name("train/cat/0001.seg.PNG")   // key "train/cat/0001", extension "seg.png"
struct SplitName {
  std::string_view key;
  std::string extension;  ///< in lower case
};
SplitName split_name(std::string_view name);

/// The most members of one sample. More of them are an error of the sample.
inline constexpr std::size_t kMostMembers = 1000;

/// True for jpg, jpeg and png.
bool is_image(std::string_view extension) noexcept;

/// Finds the samples of a shard. An entry spans a sample's members with their headers, so that one
/// read brings all of it. A fault is a sample that can't be used. Its members do not follow one
/// another, have an extension twice, include a link or a device, or exceed the limits of members or
/// bytes.
///
/// Nothing is found behind a damaged header or the end of a truncated shard, which is one fault.
/// The first note holds the extensions of the first valid sample, sorted and joined by '/'; it is
/// empty if there is none. The other notes are the classes that `rule` gives the samples.
ShardIndex scan_samples(File& file, const Limits& limits, const LabelRule& rule);

}  // namespace penstock::tar_file
