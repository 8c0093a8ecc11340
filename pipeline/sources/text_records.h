// Records that end with a newline, in several files: shared by text lines and CSV.
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

/// A scanner that finds the ends of records.
class RecordScanner {
 public:
  virtual ~RecordScanner() = default;
  /// Returns the position behind the next newline that ends a record, from `at` on, or npos if
  /// `text` has none. Called for the parts of a file in order.
  virtual std::size_t next_end(std::string_view text, std::size_t at) = 0;
};

struct TextFormat {
  std::string kind;  ///< names the format and the options that decide where records end
  std::function<std::unique_ptr<RecordScanner>()> make_scanner;
  /// A byte order mark at the start of a file is not part of the first record.
  bool byte_order_mark = false;
  bool header = false;  ///< the first record of each file is not counted
  /// Lines of these characters alone are blank: no records in front of a header, nor at the end of
  /// a file, nor anywhere if the file's first record that is not blank `has_fields`. Empty: every
  /// line is a record.
  std::string blanks{};
  std::function<bool(std::string_view first)> has_fields{};
};

/// Records that end with a newline. Scans each file once for the ends of its records (see
/// OffsetIndex), and then reads any of them. If a file has more records than the limit, it delivers
/// the first ones and then one error. Immutable and thread-safe.
class TextRecords {
 public:
  /// Scans the files. Throws Error{not_found} that lists the missing files, and
  /// Error{data_loss} for a file of another format that is known (see other_format.h).
  TextRecords(const Paths& paths, const FileOptions& options, const TextFormat& format);

  std::uint64_t size() const noexcept { return index_.size(); }
  bool blocking() const noexcept { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t index) const;
  Provenance locate(std::uint64_t index) const;
  void describe(Description& description) const;
  const Shards& shards() const noexcept { return shards_; }
  /// Returns the first record of a shard with its end, header or not. A longer one than
  /// kLongestFirst is cut, one byte behind that. Returns null if the shard has no record.
  const std::string* first_record(std::size_t shard) const noexcept;
  /// Returns why a shard could not be read up to the end of its first record, or null.
  const IndexFault* first_fault(std::size_t shard) const noexcept;

  /// Reads records. Calls `arrived` with the number of each item that is ok and its record with its
  /// end, which `owner` keeps alive. Sets the status of items that can't be read.
  using Arrived =
      std::function<void(std::size_t item, std::string_view record, const BufferPtr& owner)>;
  void read(std::span<ReadItem> items, ReadContext& context, const Arrived& arrived) const;

  static constexpr std::size_t kLongestFirst = 1 << 20;

 private:
  /// Returns true for the last record of a shard, which may lack its newline.
  bool is_last(std::uint64_t index) const noexcept;

  Shards shards_;
  std::uint64_t limit_;
  OffsetIndex index_;
  bool blocking_;
};

/// Makes a scanner that ends records at every newline.
std::unique_ptr<RecordScanner> make_line_scanner();

/// Returns `record` without its \n or \r\n, if it has one.
std::string_view without_end(std::string_view record) noexcept;

}  // namespace penstock
