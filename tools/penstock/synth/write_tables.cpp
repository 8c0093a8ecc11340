// Writers of formats with rows of fixed size: CIFAR-10, IDX, CSV. Sources:
// cs.toronto.edu/~kriz/cifar.html, yann.lecun.com/exdb/mnist, RFC 4180.
#include <array>
#include <cstdio>

#include <penstock/rng.h>

#include "tools/penstock/synth/output_file.h"
#include "tools/penstock/synth/writer.h"

namespace penstock::tool {
namespace {

/// Files that take samples, one shard after the other.
class ShardedFile {
 public:
  ShardedFile(const WriterOptions& options, std::string stem, std::string extension)
      : options_(options), stem_(std::move(stem)), extension_(std::move(extension)) {}

  /// Returns the file for sample `index`; sets `opened` if it is new.
  OutputFile& file(std::uint64_t index, bool& opened) {
    const int shard = shard_of(index, options_.count, options_.shards);
    opened = shard != shard_;
    if (opened) {
      close();
      shard_ = shard;
      name_ = stem_ + std::to_string(shard + 1) + extension_;
      file_ = create_file(options_.folder + "/" + name_);
    }
    return *file_;
  }
  const std::string& name() const noexcept { return name_; }
  void close() {
    if (file_) file_->close();
    file_.reset();
  }

 private:
  const WriterOptions options_;
  const std::string stem_;
  const std::string extension_;
  int shard_ = -1;
  std::string name_;
  std::unique_ptr<OutputFile> file_;
};

class Cifar10Writer final : public Writer {
 public:
  explicit Cifar10Writer(const WriterOptions& options) : files_(options, "data_batch_", ".bin") {}

  Place add(const Sample& sample) override {
    bool opened = false;
    OutputFile& file = files_.file(sample.index, opened);
    const std::uint64_t offset = file.offset();
    std::string row(1, static_cast<char>(sample.fault == "label" ? 255 : sample.label));
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < sample.picture.rgb.size() / 3; ++p)
        row += static_cast<char>(sample.picture.rgb[3 * p + c]);
    file.write(row);
    return {files_.name(), offset, row.size()};
  }

  void finish() override { files_.close(); }

 private:
  ShardedFile files_;
};

class IdxWriter final : public Writer {
 public:
  explicit IdxWriter(const WriterOptions& options) : options_(options) {}

  Place add(const Sample& sample) override {
    if (!images_) open(sample.picture.height, sample.picture.width);
    const std::uint64_t offset = images_->offset();
    std::string row;
    for (std::size_t p = 0; p < sample.picture.rgb.size(); p += 3) {
      const auto* rgb = sample.picture.rgb.data() + p;
      row += static_cast<char>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
    }
    images_->write(row);
    labels_->write(std::string(1, static_cast<char>(sample.label)));
    return {image_name_, offset, row.size()};
  }

  void finish() override {
    if (!images_) open(1, 1);
    images_->close();
    labels_->close();
  }

 private:
  static std::string big(std::uint64_t value) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
    return out;
  }

  void open(int height, int width) {
    const std::string end = options_.compression == "none" ? "" : ".gz";
    image_name_ = "images-idx3-ubyte" + end;
    images_ = create_file(options_.folder + "/" + image_name_, options_.compression);
    labels_ = create_file(options_.folder + "/labels-idx1-ubyte" + end, options_.compression);
    images_->write(big(0x803) + big(options_.count) + big(static_cast<std::uint64_t>(height)) +
                   big(static_cast<std::uint64_t>(width)));
    labels_->write(big(0x801) + big(options_.count));
  }

  const WriterOptions options_;
  std::string image_name_;
  std::unique_ptr<OutputFile> images_;
  std::unique_ptr<OutputFile> labels_;
};

class CsvWriter final : public Writer {
 public:
  explicit CsvWriter(const WriterOptions& options) : files_(options, "data_", ".csv") {}

  Place add(const Sample& sample) override {
    bool opened = false;
    OutputFile& file = files_.file(sample.index, opened);
    if (opened) file.write("id,label,name,x0,x1,x2,x3\r\n");
    const std::uint64_t offset = file.offset();
    Rng rng(sample.index, static_cast<std::uint64_t>(sample.label), 0x637376);
    std::string row = std::to_string(sample.index) + "," + std::to_string(sample.label) +
                      ",\"sample \"\"" + sample_key(sample.index) + "\"\", synthetic\"";
    for (int i = 0; i < 4; ++i) {
      std::array<char, 48> number{};
      std::snprintf(number.data(), number.size(), ",%.6f", sample.label + rng.normal());
      row += sample.fault == "field" && i == 0 ? ",not a number" : number.data();
    }
    file.write(row + "\r\n");
    return {files_.name(), offset, row.size()};
  }

  void finish() override { files_.close(); }

 private:
  ShardedFile files_;
};

}  // namespace

std::unique_ptr<Writer> make_cifar10_writer(const WriterOptions& options) {
  return std::make_unique<Cifar10Writer>(options);
}

std::unique_ptr<Writer> make_idx_writer(const WriterOptions& options) {
  return std::make_unique<IdxWriter>(options);
}

std::unique_ptr<Writer> make_csv_writer(const WriterOptions& options) {
  return std::make_unique<CsvWriter>(options);
}

}  // namespace penstock::tool
