// Where the records of an indexed source lie, found by one pass over the shards' headers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/sources/shards.h"

namespace penstock {

/// The bytes of a record in its shard, as far as its format frames them.
struct IndexEntry {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// A record that can't be read, known since the scan: what lies at its entry's offset is damaged.
struct IndexFault {
  std::uint64_t record = 0;  ///< within the shard
  ErrorCode code = ErrorCode::data_loss;
  std::string cause;

  /// Every scan of the same bytes finds it. Others are of the moment: no index keeps them.
  bool lasting() const noexcept {
    return code == ErrorCode::data_loss || code == ErrorCode::out_of_range;
  }
};

/// What a scan finds in one shard.
struct ShardIndex {
  std::vector<IndexEntry> entries;
  std::vector<IndexFault> faults;  ///< by record, ascending
  std::vector<std::string> notes;  ///< whatever else the format wants to know without a scan
  bool lasting = true;             ///< false: a read failed, so another scan may find more
};

/// Reads the headers of one shard. Throws nothing for damaged bytes: they are faults.
using ScanShard = std::function<ShardIndex(File& file)>;

struct IndexOptions {
  /// Format and options that decide what a scan finds: another kind is another index.
  std::string kind{};
  /// Where indices are kept: a folder, beside the data (empty), or nowhere ("-").
  std::string folder{};
  /// Smaller shards are scanned each time: a file more would cost more than it spares.
  std::uint64_t least_cached_bytes = 4 << 20;
  std::size_t threads = 0;  ///< that scan shards; 0: twice the processors, at most 16
  // What every scan finds. A kept index, which anybody may have written, that has less or more was
  // made by none.
  std::uint64_t least_entry_bytes = 1;  ///< of a record that is no fault
  std::uint64_t most_entry_bytes = UINT64_MAX;
  std::size_t least_notes = 0;
};

/// The records of all shards in order. 16 bytes a record. Immutable and thread-safe.
///
/// Kept files carry a checksum and the shard's size and time; one that is stale, damaged or not
/// what a scan could have found is silently made anew, and where it can't be written the scan is
/// simply done again next time.
class OffsetIndex {
 public:
  /// Scans the shards that have no valid index, several at once. Throws what opening a shard
  /// throws.
  OffsetIndex(const Shards& shards, const IndexOptions& options, const ScanShard& scan);

  struct Position {
    std::size_t shard = 0;
    std::uint64_t record = 0;  ///< within the shard
  };

  std::uint64_t size() const noexcept { return first_.back(); }
  /// REQUIRES: index < size(). O(log shards).
  Position find(std::uint64_t index) const noexcept {
    return index < first_[1] ? Position{0, index} : find_behind(index);
  }
  const IndexEntry& entry(Position at) const noexcept {
    return shards_[at.shard].entries[at.record];
  }
  /// Null if the record is as it should be.
  const IndexFault* fault(Position at) const noexcept {
    return shards_[at.shard].faults.empty() ? nullptr : find_fault(at);
  }
  const ShardIndex& shard(std::size_t shard) const noexcept { return shards_[shard]; }
  /// Index of a shard's first record.
  std::uint64_t first(std::size_t shard) const noexcept { return first_[shard]; }
  /// Of a shard's entries, for fingerprints. Never 0.
  std::uint64_t checksum(std::size_t shard) const noexcept { return checksums_[shard]; }

 private:
  Position find_behind(std::uint64_t index) const noexcept;
  const IndexFault* find_fault(Position at) const noexcept;

  std::vector<ShardIndex> shards_;
  std::vector<std::uint64_t> checksums_;
  std::vector<std::uint64_t> first_;  // one more than shards
};

}  // namespace penstock
