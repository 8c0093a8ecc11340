#include "pipeline/sources/text_records.h"

#include <algorithm>
#include <vector>

#include <penstock/internal/other_format.h>

namespace penstock {
namespace {

constexpr std::size_t kTextChunk = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class LineScanner final : public RecordScanner {
 public:
  std::size_t next_end(std::string_view text, std::size_t at) override {
    const std::size_t newline = text.find('\n', at);
    return newline == std::string_view::npos ? newline : newline + 1;
  }
};

/// Records begin and end where lines do.
bool is_text_record(File& file, const IndexEntry& entry) {
  const auto newline_before = [&file](std::uint64_t at) {
    std::byte last{};
    file.read_exactly(at - 1, {&last, 1});
    return last == std::byte{'\n'};
  };
  const std::uint64_t end = entry.offset + entry.size;
  return (entry.offset == 0 || entry.offset == kByteOrderMark.size() ||
          newline_before(entry.offset)) &&
         (end == file.info().size || newline_before(end));
}

class Scan {
 public:
  Scan(const TextFormat& format, const Limits& limits)
      : format_(format),
        limits_(limits),
        scanner_(format.make_scanner()),
        left_out_(format.header),
        blank_(!format.blanks.empty()) {}

  ShardIndex run(File& file) {
    std::vector<char> chunk(kTextChunk);
    const std::uint64_t size = file.info().size;
    while (at_ < size && !full_) {
      const std::size_t n = std::min<std::uint64_t>(kTextChunk, size - at_);
      try {
        file.read_exactly(at_, std::as_writable_bytes(std::span(chunk)).first(n));
      } catch (const Error& error) {
        fault(error.code(), error.cause());
        index_.lasting = false;
        return std::move(index_);
      }
      if (at_ == 0) refuse_other_format(file, std::as_bytes(std::span(chunk).first(n)));
      take({chunk.data(), n});
    }
    if (!full_ && begin_ < size) end_record(size);
    if (!full_) drop_blanks();
    return std::move(index_);
  }

 private:
  static void refuse_other_format(const File& file, std::span<const std::byte> front) {
    const OtherFormat* const other =
        find_other_format(front.first(std::min(front.size(), kOtherFormatHead)), file.info().size);
    if (other != nullptr)
      throw Error(ErrorCode::data_loss, "this is " + other->text(), {.shard = file.path()});
  }

  void take(std::string_view text) {
    std::size_t at = 0;
    if (at_ == 0 && format_.byte_order_mark && text.starts_with(kByteOrderMark)) {
      begin_ = at = kByteOrderMark.size();
    }
    while (!full_) {
      const std::size_t end = scanner_->next_end(text, at);
      const std::string_view part = text.substr(at, end - at);
      blank_ = blank_ && part.find_first_not_of(format_.blanks) == part.npos;
      if (index_.notes.empty()) keep_first(part);
      if (end == text.npos) break;
      end_record(at_ + end);
      at = end;
    }
    at_ += text.size();
  }

  // The first record may come in several parts.
  void keep_first(std::string_view part) {
    first_ += part.substr(0, TextRecords::kLongestFirst + 1 - first_.size());
  }

  void end_record(std::uint64_t end) {
    const bool blank = std::exchange(blank_, !format_.blanks.empty());
    if (blank) {
      first_.clear();
      if (left_out_ || skips_blanks_) {
        begin_ = end;
        return;
      }
    } else if (index_.notes.empty()) {
      index_.notes.push_back(first_);
      skips_blanks_ = format_.has_fields && format_.has_fields(first_);
      if (skips_blanks_) drop_blanks();
    }
    last_blanks_ = blank ? last_blanks_ + 1 : 0;
    if (left_out_) {
      left_out_ = false;
    } else if (index_.entries.size() == limits_.max_members) {
      full_ = true;
      index_.lasting = false;
      fault(ErrorCode::out_of_range, "more than " + std::to_string(limits_.max_members) +
                                         " records in one file (max_members)");
      return;
    } else {
      index_.entries.push_back({begin_, end - begin_});
    }
    begin_ = end;
  }

  /// Removes the blank lines that were found last.
  void drop_blanks() {
    index_.entries.resize(index_.entries.size() - std::exchange(last_blanks_, 0));
  }

  void fault(ErrorCode code, std::string cause) {
    index_.faults.push_back({index_.entries.size(), code, std::move(cause)});
    index_.entries.push_back({begin_, 0});
  }

  const TextFormat& format_;
  const Limits& limits_;
  std::unique_ptr<RecordScanner> scanner_;
  bool left_out_;  // the record that is under way is the header
  ShardIndex index_;
  std::string first_;  // record that is not blank, or its start
  bool blank_;         // the record that is under way, so far
  bool skips_blanks_ = false;
  std::size_t last_blanks_ = 0;  // entries of blank lines, behind all others
  std::uint64_t at_ = 0;         // where the next chunk begins
  std::uint64_t begin_ = 0;      // where the record that is under way begins
  bool full_ = false;
};

}  // namespace

TextRecords::TextRecords(const Paths& paths, const FileOptions& options, const TextFormat& format)
    : shards_(options.files, paths),
      limit_(options.limits.max_record_bytes),
      index_(shards_,
             {.kind = format.kind,
              .folder = options.index_folder,
              .least_notes = 1,
              .is_record = is_text_record},
             [&](File& file) { return Scan(format, options.limits).run(file); }),
      blocking_(shards_.open(0).file->blocking()) {}

std::uint64_t TextRecords::record_bytes(std::uint64_t index) const {
  return std::min(index_.entry(index_.find(index)).size, limit_);
}

Provenance TextRecords::locate(std::uint64_t index) const {
  const OffsetIndex::Position at = index_.find(index);
  return {.shard = shards_.path(at.shard),
          .offset = static_cast<std::int64_t>(index_.entry(at).offset),
          .index = static_cast<std::int64_t>(index),
          .stage = {},
          .length = static_cast<std::int64_t>(index_.entry(at).size)};
}

void TextRecords::describe(Description& description) const {
  shards_.describe(description, [this](std::size_t i) { return index_.checksum(i); });
}

bool TextRecords::is_last(std::uint64_t index) const noexcept {
  const OffsetIndex::Position at = index_.find(index);
  return at.record + 1 == index_.shard(at.shard).entries.size();
}

const std::string* TextRecords::first_record(std::size_t shard) const noexcept {
  const std::vector<std::string>& notes = index_.shard(shard).notes;
  return notes.empty() ? nullptr : &notes.front();
}

const IndexFault* TextRecords::first_fault(std::size_t shard) const noexcept {
  const ShardIndex& index = index_.shard(shard);
  return index.notes.empty() && !index.faults.empty() ? &index.faults.front() : nullptr;
}

void TextRecords::read(std::span<ReadItem> items, ReadContext& context,
                       const Arrived& arrived) const {
  thread_local std::vector<ReadPiece> pieces;
  pieces.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].status.ok()) continue;
    const OffsetIndex::Position at = index_.find(items[i].index);
    const IndexEntry& entry = index_.entry(at);
    if (const IndexFault* fault = index_.fault(at)) {
      items[i].status = Status(fault->code, fault->cause);
    } else if (entry.size > limit_) {
      items[i].status = Status(ErrorCode::out_of_range,
                               "a record of " + std::to_string(entry.size) +
                                   " bytes, more than the limit of " + std::to_string(limit_));
    } else {
      pieces.push_back({.item = i, .shard = at.shard, .offset = entry.offset, .size = entry.size});
    }
  }
  read_pieces(shards_, pieces, context, [&](ReadPiece& piece) {
    Status& status = items[piece.item].status;
    status = piece.status;
    if (!status.ok()) return;
    try {
      const std::string_view record(reinterpret_cast<const char*>(piece.bytes.data()),
                                    piece.bytes.size());
      if (!record.ends_with('\n') && !is_last(items[piece.item].index)) {
        index_.distrust(piece.shard);
        throw Error(ErrorCode::changed,
                    "the record does not end where the shard's index says: the file has changed");
      }
      if (piece.owner) {
        const std::size_t end = end_of(piece.bytes, piece.owner);
        context.note_records(piece.owner, {&end, 1});
      }
      arrived(piece.item, record, piece.owner);
    } catch (...) {
      status = status_from_current_exception();
    }
  });
  pieces.clear();
}

std::unique_ptr<RecordScanner> make_line_scanner() {
  return std::make_unique<LineScanner>();
}

std::string_view without_end(std::string_view record) noexcept {
  if (record.ends_with('\n')) {
    record.remove_suffix(1);
    if (record.ends_with('\r')) record.remove_suffix(1);
  }
  return record;
}

}  // namespace penstock
