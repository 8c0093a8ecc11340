// Writer of TFRecord files of tf.Examples. Sources: TensorFlow's "TFRecords format details" and
// example.proto.
#include <span>

#include <penstock/internal/crc32c.h>

#include "tools/penstock/synth/output_file.h"
#include "tools/penstock/synth/writer.h"

namespace penstock::tool {
namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

/// Returns a length-delimited field.
std::string field(int number, std::string_view bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) +
         std::string(bytes);
}

/// Returns an entry of Features.feature: the key, and a Feature that holds a list of that kind.
std::string feature(std::string_view key, int kind, std::string_view list) {
  return field(1, field(1, key) + field(2, field(kind, list)));
}

std::string bytes_feature(std::string_view key, std::string_view value) {
  return feature(key, 1, field(1, value));
}

std::string int_feature(std::string_view key, std::int64_t value) {
  return feature(key, 3, field(1, varint(static_cast<std::uint64_t>(value))));
}

std::string example(const Sample& sample, int classes) {
  return field(1, bytes_feature("image/encoded", sample.encoded) +
                      bytes_feature("image/filename", sample_key(sample.index) + ".jpg") +
                      int_feature("image/height", sample.picture.height) +
                      int_feature("image/width", sample.picture.width) +
                      int_feature("image/class/label", sample.label) +
                      bytes_feature("image/class/text", class_name(sample.label, classes)));
}

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string masked(const std::string& bytes) {
  return little(mask_crc32c(crc32c(std::as_bytes(std::span(bytes)))), 4);
}

class TFRecordWriter final : public Writer {
 public:
  explicit TFRecordWriter(const WriterOptions& options) : options_(options) {}

  Place add(const Sample& sample) override {
    const int shard = shard_of(sample.index, options_.count, options_.shards);
    if (shard != shard_) open(shard);
    const std::uint64_t offset = file_->offset();
    const std::string data = example(sample, options_.classes);
    const std::string length = little(data.size(), 8);
    std::string crc = masked(data);
    if (sample.fault == "crc") crc[0] = static_cast<char>(crc[0] ^ 1);
    file_->write(length + masked(length));
    file_->write(data);
    file_->write(crc);
    return {name_, offset, data.size()};
  }

  void finish() override {
    while (shard_ + 1 < options_.shards) open(shard_ + 1);
    if (file_) file_->close();
  }

 private:
  void open(int shard) {
    if (file_) file_->close();
    shard_ = shard;
    name_ = shard_name(shard, options_.shards, "tfrecord");
    if (options_.compression != "none") name_ += options_.compression == "gzip" ? ".gz" : ".zlib";
    file_ = create_file(options_.folder + "/" + name_, options_.compression);
  }

  const WriterOptions options_;
  int shard_ = -1;
  std::string name_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace

std::unique_ptr<Writer> make_tfrecord_writer(const WriterOptions& options) {
  return std::make_unique<TFRecordWriter>(options);
}

}  // namespace penstock::tool
