// Writers of formats whose samples are files: a folder of files, and tar.
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <set>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "tools/penstock/synth/output_file.h"
#include "tools/penstock/synth/writer.h"

namespace penstock::tool {
namespace {

class FolderWriter final : public Writer {
 public:
  explicit FolderWriter(const WriterOptions& options) : options_(options) {}

  Place add(const Sample& sample) override {
    const std::string folder = class_name(sample.label, options_.classes);
    const bool stored = is_remote(options_.folder);
    if (!stored && made_.insert(sample.label).second) {
      std::error_code error;
      std::filesystem::create_directories(options_.folder + "/" + folder, error);
      if (error)
        throw Error(ErrorCode::unavailable, "can't make the folder: " + error.message(),
                    Provenance{options_.folder + "/" + folder});
    }
    const std::string name = folder + "/" + sample_key(sample.index) + ".jpg";
    if (stored) {
      while (under_way_.size() >= kMostUnderWay) finish_oldest();
      under_way_.push_back(std::async(std::launch::async, &FolderWriter::write,
                                      options_.folder + "/" + name, sample.encoded));
    } else {
      write(options_.folder + "/" + name, sample.encoded);
    }
    return {name, 0, sample.encoded.size()};
  }

  void finish() override {
    while (!under_way_.empty()) finish_oldest();
  }

 private:
  /// Files that a store is sent at once, since each takes an answer's time.
  static constexpr std::size_t kMostUnderWay = 32;

  static void write(const std::string& path, const std::string& bytes) {
    const auto file = create_file(path);
    file->write(bytes);
    file->close();
  }

  void finish_oldest() {
    std::future<void> oldest = std::move(under_way_.front());
    under_way_.pop_front();
    oldest.get();
  }

  std::deque<std::future<void>> under_way_;
  const WriterOptions options_;
  std::set<int> made_;
};

/// Returns a ustar header for a regular file. Source: POSIX.1-2017, pax, "ustar Interchange
/// Format".
std::string tar_header(const std::string& name, std::uint64_t size) {
  std::array<char, 512> header{};
  const auto put = [&header](std::size_t at, std::string_view text) {
    std::memcpy(header.data() + at, text.data(), text.size());
  };
  std::array<char, 16> octal{};
  std::snprintf(octal.data(), octal.size(), "%011llo", static_cast<unsigned long long>(size));
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal.data());
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(octal.data(), octal.size(), "%06o", sum);
  put(148, std::string_view(octal.data(), 7));
  return {header.data(), header.size()};
}

class TarWriter final : public Writer {
 public:
  explicit TarWriter(const WriterOptions& options) : options_(options) {}

  Place add(const Sample& sample) override {
    const int shard = shard_of(sample.index, options_.count, options_.shards);
    if (shard != shard_) open(shard);
    const std::string key = sample_key(sample.index);
    const std::uint64_t offset = file_->offset();
    put(key + ".cls", std::to_string(sample.label));
    put(key + ".jpg", sample.encoded);
    return {name_, offset, sample.encoded.size()};
  }

  void finish() override {
    while (shard_ + 1 < options_.shards) open(shard_ + 1);
    close();
  }

 private:
  void put(const std::string& name, const std::string& bytes) {
    file_->write(tar_header(name, bytes.size()));
    file_->write(bytes);
    file_->write(std::string((512 - bytes.size() % 512) % 512, '\0'));
  }

  void open(int shard) {
    close();
    shard_ = shard;
    name_ = shard_name(shard, options_.shards, "tar");
    file_ = create_file(options_.folder + "/" + name_);
  }

  void close() {
    if (!file_) return;
    file_->write(std::string(1024, '\0'));
    file_->close();
    file_.reset();
  }

  const WriterOptions options_;
  int shard_ = -1;
  std::string name_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace

std::unique_ptr<Writer> make_folder_writer(const WriterOptions& options) {
  return std::make_unique<FolderWriter>(options);
}

std::unique_ptr<Writer> make_tar_writer(const WriterOptions& options) {
  return std::make_unique<TarWriter>(options);
}

std::string sample_key(std::uint64_t index) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%06llu", static_cast<unsigned long long>(index));
  return text.data();
}

std::string class_name(int label, int classes) {
  const auto digits = static_cast<int>(std::to_string(classes - 1).size());
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "class_%0*d", digits, label);
  return text.data();
}

int shard_of(std::uint64_t index, std::uint64_t count, int shards) {
  const std::uint64_t length = count / static_cast<std::uint64_t>(shards);
  const std::uint64_t longer = count % static_cast<std::uint64_t>(shards);
  const std::uint64_t in_longer = longer * (length + 1);
  return static_cast<int>(index < in_longer ? index / (length + 1)
                                            : longer + (index - in_longer) / length);
}

std::string shard_name(int shard, int shards, const std::string& extension) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "data-%05d-of-%05d.", shard, shards);
  return text.data() + extension;
}

}  // namespace penstock::tool
