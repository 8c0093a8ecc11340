#include "pipeline/sources/tfrecord_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <penstock/internal/other_format.h>

#include "pipeline/sources/inflate.h"
#include "pipeline/sources/patient_file.h"
#include "pipeline/sources/tfrecord_format.h"

namespace penstock::tfrecord_file {
namespace {

constexpr std::size_t kLeastBuffer = 256 << 10;

/// The contents of a shard as they come, decompressed if necessary.
class Contents {
 public:
  Contents(std::shared_ptr<File> file, Compression format, const Limits& limits)
      : file_(std::move(file)) {
    if (format != Compression::none) inflate_.emplace(file_, format, limits);
  }

  /// Reads as InflateStream::read does.
  std::size_t read(std::span<std::byte> out) {
    if (inflate_) return inflate_->read(out);
    const std::size_t n = std::min<std::uint64_t>(out.size(), file_->info().size - at_);
    file_->read_exactly(at_, out.first(n));
    at_ += n;
    return n;
  }
  /// Returns an upper limit of the bytes that can still come.
  std::uint64_t most_left() const noexcept {
    return inflate_ ? inflate_->most_left() : file_->info().size - at_;
  }
  const File& file() const noexcept { return *file_; }

 private:
  std::shared_ptr<File> file_;
  std::optional<InflateStream> inflate_;
  std::uint64_t at_ = 0;
};

class Stream final : public RecordStream {
 public:
  Stream(std::shared_ptr<const Shards> shards, std::vector<Compression> formats, bool verify,
         const Limits& limits)
      : shards_(std::move(shards)),
        formats_(std::move(formats)),
        verify_(verify),
        limits_(limits),
        names_(Names::intern(std::vector<std::string>{"record"})) {}

  bool next(ReadItem& item, ReadContext& context) override {
    context_ = &context;
    return step(&item, context);
  }

  void skip(std::uint64_t count, ReadContext& context) override {
    context_ = &context;
    while (count-- > 0 && step(nullptr, context)) {
    }
  }

  const Provenance& locate() const override { return where_; }

 private:
  /// Reads the next record, or its error, to `item`. If `item` is null, skips the record. Returns
  /// false at the end.
  bool step(ReadItem* item, ReadContext& context) {
    while (true) {
      if (!contents_ && shard_ == shards_->size()) return false;
      where_ = {.shard = shards_->path(shard_),
                .offset = static_cast<std::int64_t>(at_),
                .index = static_cast<std::int64_t>(index_)};
      Status status;
      bool delivered = false;
      try {
        if (!contents_) open();
        delivered = record(item, context, status);
      } catch (const Error& error) {
        status = Error(error.code(), error.cause() + "; the rest of the shard is lost", where_);
      }
      if (!status.ok() || !delivered) close();
      if (!status.ok() || delivered) {
        if (item != nullptr) {
          item->index = index_;
          if (!status.ok()) item->status = status;
        }
        ++index_;
        return true;
      }
    }
  }

  void open() {
    std::shared_ptr<File> file;
    for (int tries = 1; file == nullptr; ++tries) {
      try {
        file = std::make_shared<PatientFile>(shards_->open(shard_).file, &context_);
      } catch (const Error& error) {
        if (!context_->again(error, tries)) throw;
      }
    }
    contents_.emplace(std::move(file), formats_[shard_], limits_);
    at_ = 0;
    held_ = {};
    where_.offset = 0;
  }
  void close() {
    contents_.reset();
    owner_ = {};
    held_ = {};
    at_ = 0;
    ++shard_;
  }

  /// Reads one record. Returns false at the end of the shard. A `status` ends the shard.
  bool record(ReadItem* item, ReadContext& context, Status& status) {
    if (!hold(kHeaderBytes, context)) {
      if (held_.empty()) return false;
      status = Error(ErrorCode::data_loss, header_error_at(at_) + truncated(), where_);
      return true;
    }
    const std::optional<std::uint64_t> length = parse_header(held_.first(kHeaderBytes));
    if (!length) {
      const OtherFormat* const other = at_ == 0 ? other_format() : nullptr;
      status = Error(ErrorCode::data_loss,
                     other != nullptr ? "this is " + other->text()
                                      : std::string(header_error_at(at_)) +
                                            "corrupt record: its length fails its CRC32C; the rest "
                                            "of the shard is lost",
                     where_);
      return true;
    }
    if (*length > limits_.max_record_bytes) {
      status = Error(ErrorCode::out_of_range,
                     "a record of " + std::to_string(*length) +
                         " bytes exceeds max_record_bytes; the rest of the shard is lost",
                     where_);
      return true;
    }
    const std::size_t size = *length + kFrameBytes;
    const bool possible = size <= held_.size() + contents_->most_left();
    if (!possible || !hold(size, context)) {
      status = Error(ErrorCode::data_loss, truncated(), where_);
      return true;
    }
    if (item != nullptr) deliver(*item, held_.subspan(kHeaderBytes, size - kHeaderBytes));
    held_ = held_.subspan(size);
    at_ += size;
    return true;
  }

  /// Returns the format of contents that do not begin with a record; null if it is not known.
  const OtherFormat* other_format() const noexcept {
    return find_other_format(held_.first(std::min(held_.size(), kOtherFormatHead)),
                             held_.size() + contents_->most_left());
  }

  void deliver(ReadItem& item, std::span<const std::byte> data_and_footer) {
    if (verify_ && !data_is_sound(data_and_footer)) {
      item.status = Error(ErrorCode::data_loss, "the record's data fails its CRC32C", where_);
      return;
    }
    item.element.reset(names_);
    item.element[0] = Tensor::bytes({reinterpret_cast<const char*>(data_and_footer.data()),
                                     data_and_footer.size() - kFooterBytes},
                                    owner_);
  }

  /// Makes held_ at least `size` bytes long. If the old buffer is too short, moves to a new one,
  /// because elements may view the old one. Returns false if the shard ends before. Throws the
  /// error that the shard ends with.
  bool hold(std::size_t size, ReadContext& context) {
    if (held_.size() >= size) return true;
    const BufferPtr buffer = context.allocate(std::max(size, kLeastBuffer));
    std::size_t have = held_.size();
    if (have > 0) std::memcpy(buffer->data(), held_.data(), have);
    // A read that fails in the middle first delivers the bytes before.
    for (std::size_t got = 1; have < size && got > 0; have += got)
      got = contents_->read({buffer->data() + have, std::max(size, kLeastBuffer) - have});
    shards_->check(shard_, contents_->file(), context.trust_data());
    owner_ = buffer;
    held_ = {buffer->data(), have};
    return have >= size;
  }

  std::string truncated() const {
    if (contents_->most_left() > 0 && formats_[shard_] == Compression::none)
      return "truncated at byte " + std::to_string(at_ + held_.size() + contents_->most_left());
    return "truncated at byte " + std::to_string(at_ + held_.size()) +
           (formats_[shard_] == Compression::none ? "" : " of the contents");
  }

  // Constant after construction.
  const std::shared_ptr<const Shards> shards_;
  const std::vector<Compression> formats_;
  const bool verify_;
  const Limits limits_;
  const Names* const names_;

  ReadContext* context_ = nullptr;  // of the call
  std::size_t shard_ = 0;
  std::optional<Contents> contents_;
  BufferPtr owner_;                  // of held_
  std::span<const std::byte> held_;  // the contents from at_ on, as far as they are read
  std::uint64_t at_ = 0;             // in the contents
  std::uint64_t index_ = 0;
  Provenance where_;
};

}  // namespace

std::unique_ptr<RecordStream> make_stream(std::shared_ptr<const Shards> shards,
                                          std::vector<Compression> formats, bool verify,
                                          const Limits& limits) {
  return std::make_unique<Stream>(std::move(shards), std::move(formats), verify, limits);
}

}  // namespace penstock::tfrecord_file
