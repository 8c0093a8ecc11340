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

  /// Returns all options and shards, in the order in which they were added.
  const std::vector<std::pair<std::string, std::string>>& entries() const noexcept {
    return entries_;
  }
  /// Returns "n=3, index=0"; shards are counted, not listed.
  std::string to_string() const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
  std::size_t shards_ = 0;
};

}  // namespace penstock
