// The index of an indexed source: where its records lie, found by one pass over the shards'
// headers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/sources/shards.h"

namespace penstock {

/// The bytes of a record in its shard, with the framing of its format.
struct IndexEntry {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// A record that the scan found to be unreadable: the bytes at its entry's offset are damaged.
struct IndexFault {
  std::uint64_t record = 0;  ///< within the shard
  ErrorCode code = ErrorCode::data_loss;
  std::string cause;

  /// True if every scan of the same bytes finds this fault. Other faults are temporary, and no
  /// index file keeps them.
  bool lasting() const noexcept {
    return code == ErrorCode::data_loss || code == ErrorCode::out_of_range;
  }
};

/// The results of the scan of one shard.
struct ShardIndex {
  std::vector<IndexEntry> entries;
  std::vector<IndexFault> faults;  ///< ascending by record
  std::vector<std::string> notes;  ///< other facts that the format needs without a scan
  bool lasting = true;             ///< false: a read failed, so another scan may find more
};

/// A function that reads the headers of one shard. It does not throw for damaged bytes: it reports
/// them as faults.
using ScanShard = std::function<ShardIndex(File& file)>;

struct IndexOptions {
  /// The format, and the options that decide what a scan finds. Each kind has an index of its own.
  std::string kind{};
  /// The place for indices: a folder, "beside" the data, or "-" for none. Empty means
  /// default_index_folder(); an index that lies next to the data is read then too.
  std::string folder{};
  /// Smaller shards are scanned each time, because one more file would cost more than it saves.
  std::uint64_t least_cached_bytes = 4 << 20;
  std::size_t threads = 0;  ///< for scanning shards; 0: twice the processors, at most 16
  // Limits that the results of every scan keep. Index files are checked against them, since anyone
  // may have written one.
  std::uint64_t least_entry_bytes = 1;  ///< of a record without a fault
  std::uint64_t most_entry_bytes = UINT64_MAX;
  std::size_t least_notes = 0;
  /// Returns true if a record lies there, as far as a look at its first and last bytes tells. Asked
  /// for some records of a kept index, since it may be of other bytes. Null: not asked.
  std::function<bool(File& file, const IndexEntry& entry)> is_record{};
};

/// The places of the records of all shards, in order. Takes 16 bytes for each record. Immutable and
/// thread-safe.
///
/// Index files carry a checksum and the shard's size and contents (see hash_contents). A file that
/// is stale, damaged or not possible as the result of a scan is silently replaced. If it can't be
/// written, the next run scans again.
class OffsetIndex {
 public:
  /// Scans the shards that have no valid index, several at once. Throws as opening a shard does.
  OffsetIndex(const Shards& shards, const IndexOptions& options, const ScanShard& scan);

  struct Position {
    std::size_t shard = 0;
    std::uint64_t record = 0;  ///< within the shard
  };

  std::uint64_t size() const noexcept { return first_.back(); }
  /// Returns the position of a record. REQUIRES: index < size(). O(log shards).
  Position find(std::uint64_t index) const noexcept {
    return index < first_[1] ? Position{0, index} : find_behind(index);
  }
  const IndexEntry& entry(Position at) const noexcept {
    return shards_[at.shard].entries[at.record];
  }
  /// Returns the record's fault, or null if it has none.
  const IndexFault* fault(Position at) const noexcept {
    return shards_[at.shard].faults.empty() ? nullptr : find_fault(at);
  }
  const ShardIndex& shard(std::size_t shard) const noexcept { return shards_[shard]; }
  /// Returns the index of a shard's first record.
  std::uint64_t first(std::size_t shard) const noexcept { return first_[shard]; }
  /// Returns a checksum of a shard's entries, faults and notes, for fingerprints. Never 0.
  std::uint64_t checksum(std::size_t shard) const noexcept { return checksums_[shard]; }
  /// Removes the kept index of a shard, because a record was not where it says. The next run scans
  /// again. Thread-safe.
  void distrust(std::size_t shard) const noexcept;

 private:
  Position find_behind(std::uint64_t index) const noexcept;
  const IndexFault* find_fault(Position at) const noexcept;

  std::vector<ShardIndex> shards_;
  std::vector<std::string> kept_;  // the index files; empty: none
  std::vector<std::uint64_t> checksums_;
  std::vector<std::uint64_t> first_;  // one more entry than shards
};

}  // namespace penstock
