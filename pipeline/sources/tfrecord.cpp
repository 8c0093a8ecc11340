// The source that reads TFRecord files.
#include <penstock/sources.h>

#include <algorithm>
#include <array>

#include <penstock/log.h>

#include "pipeline/sources/indexed_read.h"
#include "pipeline/sources/inflate.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/sources/tfrecord_format.h"
#include "pipeline/sources/tfrecord_stream.h"

namespace penstock {
namespace {

Spec record_spec() {
  return Spec({{"record", DType::bytes, Shape()}});
}

std::uint64_t most_framed(std::uint64_t most_data) {
  return std::min(most_data, UINT64_MAX - tfrecord_file::kFrameBytes) + tfrecord_file::kFrameBytes;
}

bool is_tfrecord(File& file, const IndexEntry& entry) {
  std::array<std::byte, tfrecord_file::kHeaderBytes> header{};
  file.read_exactly(entry.offset, header);
  return tfrecord_file::parse_header(header) == entry.size - tfrecord_file::kFrameBytes;
}

/// Records of plain shards.
class IndexedRecords final : public Source {
 public:
  IndexedRecords(std::shared_ptr<const Shards> shards, const TFRecordOptions& options)
      : shards_(std::move(shards)),
        verify_(options.verify),
        index_(*shards_,
               {.kind = "tfrecord 1 " + std::to_string(options.limits.max_record_bytes) + ' ' +
                        std::to_string(options.limits.max_members),
                .folder = options.index_folder,
                .least_entry_bytes = tfrecord_file::kFrameBytes,
                .most_entry_bytes = most_framed(options.limits.max_record_bytes),
                .is_record = is_tfrecord},
               [&](File& file) { return tfrecord_file::scan(file, options.limits); }),
        blocking_(shards_->open(0).file->blocking()),
        names_(Names::intern(std::vector<std::string>{"record"})) {}

  std::string name() const override { return "tfrecord"; }
  void describe(Description& description) const override {
    shards_->describe(description, [this](std::size_t i) { return index_.checksum(i); });
  }
  Spec spec() const override { return record_spec(); }
  std::optional<std::uint64_t> size() const override { return index_.size(); }
  bool blocking() const override { return blocking_; }
  bool shares_buffers() const override { return true; }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return index_.entry(index_.find(index)).size;
  }
  Provenance locate(std::uint64_t index) const override {
    return locate_record(*shards_, index_, index);
  }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    read_records(*shards_, index_, items, context,
                 [&](ReadPiece& piece, ReadItem& item) { deliver(piece, item, context); });
  }
  bool textual() const override { return true; }
  void read_texts(std::span<const std::uint64_t> indices, std::span<std::string_view> texts,
                  std::span<BufferPtr> owners, std::vector<std::size_t>& left,
                  ReadContext& context) const override {
    read_records(
        *shards_, index_, indices, context,
        [&](std::size_t k, ReadPiece& piece) {
          if (damage(piece.bytes) != nullptr) return left.push_back(k);
          texts[k] = data_of(piece);
          owners[k] = std::move(piece.owner);
        },
        [&](std::size_t k, const Error&) { left.push_back(k); });
  }

 private:
  static std::string_view data_of(const ReadPiece& piece) noexcept {
    return {reinterpret_cast<const char*>(piece.bytes.data()) + tfrecord_file::kHeaderBytes,
            piece.bytes.size() - tfrecord_file::kFrameBytes};
  }
  static bool has_its_length(std::span<const std::byte> bytes) noexcept {
    return tfrecord_file::parse_header(bytes.first(tfrecord_file::kHeaderBytes)) ==
           bytes.size() - tfrecord_file::kFrameBytes;
  }
  /// Returns null if the bytes are the record that the index knows.
  const char* damage(std::span<const std::byte> bytes) const noexcept {
    const auto length = tfrecord_file::parse_header(bytes.first(tfrecord_file::kHeaderBytes));
    if (!length) return "the record's length fails its CRC32C";
    if (*length != bytes.size() - tfrecord_file::kFrameBytes)
      return "the record's length is not what it was";
    if (verify_ && !tfrecord_file::data_is_sound(bytes.subspan(tfrecord_file::kHeaderBytes)))
      return "the record's data fails its CRC32C";
    return nullptr;
  }

  void deliver(ReadPiece& piece, ReadItem& item, ReadContext& context) const {
    if (const char* const damaged = damage(piece.bytes); damaged != nullptr) [[unlikely]] {
      try {
        reread_piece(*shards_, piece, context);
      } catch (const Error& error) {
        piece.status = error;
      }
      if (!piece.status.ok() || damage(piece.bytes) != nullptr) {
        if (piece.status.ok() && !has_its_length(piece.bytes)) index_.distrust(piece.shard);
        item.status = Error(ErrorCode::data_loss, damaged, locate(item.index));
        return;
      }
      log(LogLevel::warning, locate(item.index).to_string() + ": " + damaged +
                                 ", but not when read from the disk again");
    }
    item.element.start(names_);
    item.element.append(Tensor::bytes(data_of(piece), std::move(piece.owner)));
  }

  const std::shared_ptr<const Shards> shards_;
  const bool verify_;
  const OffsetIndex index_;
  const bool blocking_;
  const Names* const names_;
};

/// Records of shards of which some are compressed.
class StreamedRecords final : public Source {
 public:
  StreamedRecords(std::shared_ptr<const Shards> shards, std::vector<Compression> formats,
                  const TFRecordOptions& options)
      : shards_(std::move(shards)),
        formats_(std::move(formats)),
        verify_(options.verify),
        limits_(options.limits) {}

  std::string name() const override { return "tfrecord"; }
  void describe(Description& description) const override { shards_->describe(description); }
  Spec spec() const override { return record_spec(); }
  bool blocking() const override { return true; }
  std::unique_ptr<RecordStream> stream() const override {
    return tfrecord_file::make_stream(shards_, formats_, verify_, limits_);
  }

 private:
  const std::shared_ptr<const Shards> shards_;
  const std::vector<Compression> formats_;
  const bool verify_;
  const Limits limits_;
};

Compression detect(File& file) {
  std::byte head[tfrecord_file::kHeaderBytes] = {};
  const std::size_t n = std::min<std::uint64_t>(sizeof(head), file.info().size);
  file.read_exactly(0, std::span(head, n));
  if (n == tfrecord_file::kHeaderBytes && tfrecord_file::parse_header(head))
    return Compression::none;
  return compression_of(std::span(head, n));
}

std::vector<Compression> formats_of(const Shards& shards, Compression wanted) {
  std::vector<Compression> formats(shards.size(), wanted);
  if (wanted != Compression::automatic) return formats;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    patiently([&] { formats[i] = detect(*shards.open(i).file); });
  }
  return formats;
}

}  // namespace

SourcePtr make_tfrecord_source(const Paths& paths, const TFRecordOptions& options) {
  auto shards = std::make_shared<const Shards>(options.files, paths);
  std::vector<Compression> formats = formats_of(*shards, options.compression);
  const bool plain = std::all_of(formats.begin(), formats.end(),
                                 [](Compression c) { return c == Compression::none; });
  if (plain) return std::make_shared<IndexedRecords>(std::move(shards), options);
  return std::make_shared<StreamedRecords>(std::move(shards), std::move(formats), options);
}

}  // namespace penstock
