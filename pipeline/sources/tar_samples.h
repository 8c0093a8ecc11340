// The rules by which members of a tar shard make samples, as in WebDataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/limits.h>

#include "pipeline/sources/labels.h"
#include "pipeline/sources/offset_index.h"
#include "pipeline/sources/tar_format.h"

namespace penstock::tar_file {

/// The parts of a member's name. `key` is empty if the member belongs to no sample. This is so for
/// a name without an extension, and if its last part begins with a dot (unless `hidden`), or begins
/// and ends with "__" as "__meta__" does.
///
///     split_name("train/cat/0001.seg.PNG", false)   // key "train/cat/0001", extension "seg.png"
struct SplitName {
  std::string_view key;
  std::string extension;  ///< in lower case
};
SplitName split_name(std::string_view name, bool hidden);

/// True if the last part of a member's name begins with a dot, as "._1.jpg" does, where macOS keeps
/// attributes of 1.jpg.
bool is_hidden(std::string_view name) noexcept;

/// The most members of one sample. More of them are an error of the sample.
inline constexpr std::size_t kMostMembers = 1000;

/// True for jpg, jpeg and png.
bool is_image(std::string_view extension) noexcept;

/// Samples with members of the same extensions.
struct SampleLayout {
  std::string extensions;     ///< sorted, joined by '/'
  std::uint64_t samples = 0;  ///< that have them
  std::string first;          ///< the key of the first of these
};
/// Returns the parts of a text between separators.
std::vector<std::string_view> parts_of(std::string_view text, char separator);
/// Returns the extensions that at least half of the samples have, sorted. The extensions of images
/// count as one, unless most samples have several of them. If there is none, returns those
/// that most samples have.
std::vector<std::string> usual_extensions(const std::vector<SampleLayout>& layouts);

/// Facts about a shard that a reader may want to know, though they lose no sample.
struct ShardFacts {
  std::uint64_t nameless = 0;              ///< members that belong to no sample by their name
  std::uint64_t hidden = 0;                ///< members whose last part begins with a dot
  std::uint64_t unknown = 0;               ///< headers of Kind::unknown
  std::uint64_t strange = 0;               ///< samples without any usual member
  bool lacks_end = false;                  ///< no end-of-archive marker
  std::optional<std::uint64_t> another{};  ///< offset of another archive behind the end
  std::string first_nameless{};            ///< name of such a member
  std::string first_strange{};             ///< key of such a sample
};

/// The form of both in the notes of an index. An index may come from anywhere, so no note is
/// trusted.
std::string text_of(const std::vector<SampleLayout>& layouts);
std::vector<SampleLayout> layouts_in(std::string_view note);
std::string text_of(const ShardFacts& facts);
ShardFacts facts_in(std::string_view note);

/// Finds the samples of a shard. An entry spans a sample's members with their headers, so that one
/// read brings all of it. A fault is a sample that can't be used. Its members do not follow one
/// another, have an extension twice, include a link or a device, or exceed the limits of members or
/// bytes.
///
/// Nothing is found behind a damaged header or a cut within a member, which is one fault. A sample
/// without any usual member, such as a README, is left out. The first note holds
/// the layouts of the other valid samples, the second the facts. The other notes are the classes
/// that `rule` gives the samples. Hidden members are skipped and counted, unless `hidden`.
ShardIndex scan_samples(File& file, const Limits& limits, const LabelRule& rule, bool hidden);

}  // namespace penstock::tar_file
