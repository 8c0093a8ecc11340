#include "tools/penstock/run/prediction_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/posix.h>

namespace penstock::tool {
namespace {

constexpr std::size_t kBuffered = std::size_t{1} << 20;

/// A file that has a temporary name until it is complete.
class Output {
 public:
  explicit Output(std::string path) : path_(std::move(path)) {
    if (path_ == "-") return;
    fd_ = UniqueFd(::open(partial().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd_) throw error_from_errno(errno, "write", path_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (!fd_) return;
    std::error_code ignored;
    std::filesystem::remove(partial(), ignored);
  }

  void write(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBuffered) flush();
  }
  void flush() {
    const int reason = write_all(fd_ ? fd_.get() : STDOUT_FILENO, buffer_);
    buffer_.clear();
    if (reason != 0) throw error_from_errno(reason, "write", path_);
  }
  void rewrite_front(std::string_view text) {
    flush();
    if (::lseek(fd_.get(), 0, SEEK_SET) < 0) throw error_from_errno(errno, "write", path_);
    write(text);
  }
  void close() {
    flush();
    if (!fd_) return;
    if (const int error = sync_file(fd_.get(), path_))
      throw error_from_errno(error, "write", path_);
    std::error_code error;
    std::filesystem::rename(partial(), path_, error);
    if (error) throw error_from_errno(error.value(), "write", path_);
    fd_ = UniqueFd();
  }

 private:
  std::string partial() const { return path_ + ".partial"; }

  const std::string path_;
  UniqueFd fd_;
  std::string buffer_;
};

void add_quoted(std::string_view field, std::string& line) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += field;
    return;
  }
  line += '"';
  for (const char c : field) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

void add_number(float value, std::string& line) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  line.append(text.data(), end);
}

class Csv final : public PredictionFile {
 public:
  Csv(const std::string& path, PredictionColumns columns)
      : out_(path), columns_(std::move(columns)) {
    std::string line = "row";
    if (columns_.keys) line += ",key";
    if (columns_.classes) line += ",class,probability";
    for (const std::string& name : columns_.scores) {
      line += ',';
      add_quoted(name, line);
    }
    out_.write(line + "\n");
  }

  void add(std::int64_t row, std::string_view key, std::span<const float> scores) override {
    std::string line = std::to_string(row);
    if (columns_.keys) {
      line += ',';
      add_quoted(key, line);
    }
    if (columns_.classes) {
      const auto best = std::ranges::max_element(scores);
      line += ',';
      add_quoted(columns_.scores.at(static_cast<std::size_t>(best - scores.begin())), line);
      line += ',';
      add_number(*best, line);
    }
    for (const float score : scores) {
      line += ',';
      add_number(score, line);
    }
    out_.write(line + "\n");
  }
  void close() override { out_.close(); }

 private:
  Output out_;
  const PredictionColumns columns_;
};

/// Source of the format: numpy.lib.format, version 1.0.
class Npy final : public PredictionFile {
 public:
  Npy(const std::string& path, std::size_t scores) : out_(path), scores_(scores) {
    out_.write(header());
  }
  void add(std::int64_t /*row*/, std::string_view /*key*/, std::span<const float> scores) override {
    out_.write({reinterpret_cast<const char*>(scores.data()), scores.size_bytes()});
    ++rows_;
  }
  void close() override {
    out_.rewrite_front(header());
    out_.close();
  }

 private:
  std::string header() const {
    constexpr std::size_t kBytes = 128;  // a fixed size, so that it may be written again
    std::string about = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                        std::to_string(rows_) + ", " + std::to_string(scores_) + "), }";
    about.resize(kBytes - 10, ' ');
    about.back() = '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(about.size()) + '\0' + about;
  }

  Output out_;
  const std::size_t scores_;
  std::uint64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<PredictionFile> open_predictions(const std::string& path,
                                                 const PredictionColumns& columns) {
  if (path.ends_with(".npy")) return std::make_unique<Npy>(path, columns.scores.size());
  return std::make_unique<Csv>(path, columns);
}

}  // namespace penstock::tool
