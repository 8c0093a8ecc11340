#include "tools/penstock/synth/output_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <system_error>

#include <zlib.h>

#include <penstock/error.h>
#include <penstock/file_system.h>
#include <penstock/remote_files.h>

namespace penstock::tool {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorCode::unavailable, "can't write: " + std::generic_category().message(errno),
              Provenance{path});
}

class PlainFile final : public OutputFile {
 public:
  explicit PlainFile(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb"), &std::fclose) {
    if (!file_) fail(path_);
  }

  void write(std::string_view bytes) override {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail(path_);
    offset_ += bytes.size();
  }

  void close() override {
    if (std::fclose(file_.release()) != 0) fail(path_);
  }

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// An object in a store.
class StoredFile final : public OutputFile {
 public:
  explicit StoredFile(const std::string& path) : file_(default_file_system()->create(path)) {}

  void write(std::string_view bytes) override {
    file_->append(std::as_bytes(std::span(bytes)));
    offset_ += bytes.size();
  }

  void close() override { file_->commit(); }

 private:
  std::unique_ptr<WritableFile> file_;
};

std::unique_ptr<OutputFile> create_plain(const std::string& path) {
  if (is_remote(path)) return std::make_unique<StoredFile>(path);
  return std::make_unique<PlainFile>(path);
}

class DeflatedFile final : public OutputFile {
 public:
  DeflatedFile(const std::string& path, bool gzip) : plain_(create_plain(path)) {
    constexpr int kGzip = 16;  // added to the window's bits, see zlib.h
    if (deflateInit2(&stream_, 1, Z_DEFLATED, MAX_WBITS + (gzip ? kGzip : 0), 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw Error(ErrorCode::resource_exhausted, "no memory to compress", Provenance{path});
  }
  ~DeflatedFile() override { deflateEnd(&stream_); }
  DeflatedFile(const DeflatedFile&) = delete;
  DeflatedFile& operator=(const DeflatedFile&) = delete;

  void write(std::string_view bytes) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    pump(Z_NO_FLUSH);
    offset_ += bytes.size();
  }

  void close() override {
    pump(Z_FINISH);
    plain_->close();
  }

 private:
  void pump(int flush) {
    std::array<char, 65536> block;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(block.data());
      stream_.avail_out = block.size();
      deflate(&stream_, flush);
      plain_->write({block.data(), block.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  std::unique_ptr<OutputFile> plain_;
  z_stream stream_{};
};

}  // namespace

std::unique_ptr<OutputFile> create_file(const std::string& path, const std::string& compression) {
  if (compression == "none") return create_plain(path);
  return std::make_unique<DeflatedFile>(path, compression == "gzip");
}

}  // namespace penstock::tool
