// Descriptions that stages and sources give of themselves, for explain and for fingerprints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// The options of a stage or source as text, in a fixed order. It holds everything that decides the
/// order or the bytes of the output, and neither thread counts nor buffer sizes. Not synchronised.
class Description {
 public:
  /// A hash of the contents of the files `first` to `last` of a stage.
  struct Contents {
    std::string first, last;  ///< names relative to the data set
    std::uint64_t hash = 0;   ///< of all of them
  };

  Description() = default;
  /// With `contents`, sources are asked for the contents of their files too, which states and cache
  /// files keep: of all files, or of at most `most_files` that are spread evenly.
  explicit Description(bool contents, std::size_t most_files = SIZE_MAX)
      : wants_contents_(contents), most_files_(most_files) {}

  /// Adds an option.
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::int64_t value);
  void add(std::string_view key, std::uint64_t value);
  void add(std::string_view key, int value) { add(key, static_cast<std::int64_t>(value)); }
  void add(std::string_view key, double value);
  void add(std::string_view key, bool value);
  /// Adds a file that is read: its relative name, its size in bytes and, once known, the checksum
  /// of its index (0: unknown).
  void add_shard(std::string_view name, std::uint64_t size, std::uint64_t index_checksum = 0);

  /// Returns true if contents are wanted. Without them a description reads no file.
  bool wants_contents() const noexcept { return wants_contents_; }
  /// Returns how many files the contents are wanted of, at most.
  std::size_t most_files() const noexcept { return most_files_; }
  /// Adds the contents of neighbouring files. At most 64 ranges for each source keep states small.
  /// A source of which the contents are unknown adds none.
  void add_contents(std::string first, std::string last, std::uint64_t hash) {
    contents_.push_back({std::move(first), std::move(last), hash});
  }
  /// Returns all contents that were added.
  const std::vector<Contents>& contents() const noexcept { return contents_; }

  /// Returns all options and shards, in the order in which they were added.
  const std::vector<std::pair<std::string, std::string>>& entries() const noexcept {
    return entries_;
  }
  /// Returns "n=3, index=0"; shards are counted, not listed.
  std::string to_string() const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
  std::vector<Contents> contents_;
  std::size_t shards_ = 0;
  bool wants_contents_ = false;
  std::size_t most_files_ = SIZE_MAX;
};

}  // namespace penstock
