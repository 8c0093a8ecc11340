// Records that end with a newline, in several files: what text lines and CSV share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <penstock/source.h>
#include <penstock/sources.h>

#include "pipeline/sources/group_read.h"
#include "pipeline/sources/offset_index.h"
#include "pipeline/sources/shards.h"

namespace penstock {

/// How a scan finds where records end.
class RecordScanner {
 public:
  virtual ~RecordScanner() = default;
  /// Position behind the next newline that ends a record, from `at` on; npos if `text` has none.
  /// Called with one part of a file after the other, front to back.
  virtual std::size_t next_end(std::string_view text, std::size_t at) = 0;
};

struct TextFormat {
  std::string kind;  ///< names the format and what decides where its records end
  std::function<std::unique_ptr<RecordScanner>()> make_scanner;
  bool byte_order_mark = false;  ///< one at the start of a file is no part of the first record
  bool header = false;           ///< the first record of each file is not counted
};

/// Scans each file once for the ends of its records (see OffsetIndex), then reads any of them.
/// A file of more records than the limit delivers the first ones and then one error. Immutable and
/// thread-safe.
class TextRecords {
 public:
  /// Throws Error{not_found} that lists what is missing.
  TextRecords(const Paths& paths, const FileOptions& options, const TextFormat& format);

  std::uint64_t size() const noexcept { return index_.size(); }
  bool blocking() const noexcept { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t index) const;
  Provenance locate(std::uint64_t index) const;
  void describe(Description& description) const;
  const Shards& shards() const noexcept { return shards_; }
  /// The first record of a shard, header or not, at most kLongestFirst bytes of it with its end;
  /// null if the shard is empty.
  const std::string* first_record(std::size_t shard) const noexcept;
  /// Why a shard could not be read as far as the end of its first record; else null.
  const IndexFault* first_fault(std::size_t shard) const noexcept;

  /// Calls `arrived` with the number of each item that is ok and its record without the end (\n or
  /// \r\n), kept alive by `owner`; sets the status of those that can't be read.
  using Arrived =
      std::function<void(std::size_t item, std::string_view record, const BufferPtr& owner)>;
  void read(std::span<ReadItem> items, ReadContext& context, const Arrived& arrived) const;

  static constexpr std::size_t kLongestFirst = 1 << 20;

 private:
  Shards shards_;
  std::uint64_t limit_;
  OffsetIndex index_;
  bool blocking_;
};

/// Ends records at every newline.
std::unique_ptr<RecordScanner> make_line_scanner();

/// `record` without its \n or \r\n, if it has one.
std::string_view without_end(std::string_view record) noexcept;

}  // namespace penstock
