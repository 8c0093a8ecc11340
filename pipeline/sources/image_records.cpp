#include "pipeline/sources/image_records.h"

#include <charconv>

#include <penstock/internal/crc32c.h>
#include <penstock/log.h>

#include "pipeline/sources/image_records_format.h"
#include "pipeline/sources/indexed_read.h"
#include "pipeline/sources/mapping.h"

namespace penstock {
namespace {

using records_file::Frame;
using records_file::kFrameBytes;

/// The number of notes in front of the class names.
constexpr std::size_t kNotes = 2;

class ImageRecords final : public Source {
 public:
  ImageRecords(const Paths& paths, const FileOptions& options)
      : limits_(options.limits),
        shards_(options.files, paths),
        index_(shards_,
               {.kind = "image records 1",
                .folder = "-",
                .least_entry_bytes = kFrameBytes,
                .least_notes = kNotes},
               [&](File& file) { return records_file::scan(file, limits_); }),
        blocking_(shards_.open(0).file->blocking()),
        names_(Names::intern(std::vector<std::string>{"image", "label", "key"})) {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      const std::vector<std::string>& notes = index_.shard(i).notes;
      std::vector<std::string> names(notes.begin() + kNotes, notes.end());
      if (i == 0) {
        class_names_ = std::move(names);
      } else if (names != class_names_) {
        throw Error(ErrorCode::invalid_argument,
                    "its classes differ from those of " + shards_.path(0),
                    {.shard = shards_.path(i), .stage = {}});
      }
      std::uint64_t count = 0;
      std::from_chars(notes[1].data(), notes[1].data() + notes[1].size(), count);
      as_they_are_ += count;
      (notes[0] == "1" ? coefficients_ : indexed_) += index_.shard(i).entries.size() - count;
    }
  }

  std::string name() const override { return "image_records"; }
  void describe(Description& description) const override {
    shards_.describe(description, [this](std::size_t i) { return index_.checksum(i); });
    description.add("coefficients", coefficients_);
    description.add("indexed", indexed_);
    description.add("as_they_are", as_they_are_);
  }
  Spec spec() const override {
    return Spec(
        {{"image", DType::bytes, {}}, {"label", DType::i64, {}}, {"key", DType::bytes, {}}});
  }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::optional<std::uint64_t> size() const override { return index_.size(); }
  bool blocking() const override { return blocking_; }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return index_.entry(index_.find(index)).size;
  }
  Provenance locate(std::uint64_t index) const override {
    return locate_record(shards_, index_, index);
  }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    read_records(shards_, index_, items, context,
                 [&](ReadPiece& piece, ReadItem& item) { deliver(piece, item, context); });
  }

 private:
  /// Returns an empty text if the bytes are a valid record, as far as this source checks.
  std::string damage(std::span<const std::byte> bytes) const {
    const std::optional<Frame> frame = records_file::parse_frame(bytes, limits_);
    if (!frame || frame->size() != bytes.size()) return "the record's frame is damaged";
    if (!records_file::frame_is_sound(bytes.first(kFrameBytes + frame->key_bytes)))
      return "the record's frame fails its CRC32C";
    if (frame->as_it_is &&
        crc32c(bytes.last(static_cast<std::size_t>(frame->image_bytes))) != frame->image_crc)
      return "the record's image fails its CRC32C";
    return {};
  }

  void deliver(ReadPiece& piece, ReadItem& item, ReadContext& context) const {
    if (std::string damaged = damage(piece.bytes); !damaged.empty()) {
      try {
        reread_piece(shards_, piece, context);
      } catch (const Error& error) {
        piece.status = error;
      }
      if (!piece.status.ok() || !damage(piece.bytes).empty()) {
        item.status = Error(ErrorCode::data_loss, std::move(damaged), locate(item.index));
        return;
      }
      log(LogLevel::warning, locate(item.index).to_string() + ": " + damaged +
                                 ", but not when read from the disk again");
    }
    const Frame frame = *records_file::parse_frame(piece.bytes, limits_);
    const std::string_view text(reinterpret_cast<const char*>(piece.bytes.data()),
                                piece.bytes.size());
    item.element.reset(names_);
    item.element[0] = Tensor::bytes(text.substr(kFrameBytes + frame.key_bytes), piece.owner);
    item.element[1] = Tensor::scalar<std::int64_t>(frame.label);
    item.element[2] = key_tensor(text.substr(kFrameBytes, frame.key_bytes), piece.owner, context);
  }

  const Limits limits_;
  const Shards shards_;
  const OffsetIndex index_;
  const bool blocking_;
  const Names* const names_;
  std::vector<std::string> class_names_;
  std::uint64_t coefficients_ = 0;
  std::uint64_t indexed_ = 0;
  std::uint64_t as_they_are_ = 0;
};

}  // namespace

SourcePtr make_image_records_source(const Paths& paths, const FileOptions& options) {
  return std::make_shared<ImageRecords>(paths, options);
}

}  // namespace penstock
