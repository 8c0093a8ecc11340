#include "tools/penstock/shards/format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include <zlib.h>

#include <penstock/error.h>
#include <penstock/file_system.h>
#include <penstock/internal/crc32c.h>
#include <penstock/internal/posix.h>
#include <penstock/remote_files.h>

#include "pipelines/text.h"

namespace penstock::tool {
namespace {

constexpr std::size_t kHead = 16'384;
constexpr std::size_t kCifarRow = 3073;

std::uint64_t little(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

bool is_tar(std::string_view head) {
  if (head.size() < 512) return false;
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i)
    sum += i >= 148 && i < 156 ? unsigned{' '} : static_cast<unsigned char>(head[i]);
  unsigned stored = 0;
  bool digits = false;
  for (const char c : head.substr(148, 8)) {
    if (c >= '0' && c <= '7') {
      stored = stored * 8 + static_cast<unsigned>(c - '0');
      digits = true;
    } else if (digits) {
      break;
    }
  }
  return digits && stored == sum;
}

bool is_tfrecord(std::string_view head) {
  if (head.size() < 12) return false;
  const auto length = std::as_bytes(std::span(head.data(), 8));
  return mask_crc32c(crc32c(length)) == little(head.substr(8, 4));
}

bool is_idx(std::string_view head) {
  if (head.size() < 8 || head[0] != 0 || head[1] != 0) return false;
  constexpr std::string_view kTypes{"\x08\x09\x0b\x0c\x0d\x0e"};
  const auto rank = static_cast<std::size_t>(head[3]);
  return kTypes.find(head[2]) != kTypes.npos && rank >= 1 && rank <= 6;
}

bool is_cifar10(std::string_view head, std::uint64_t size) {
  if (size == 0 || size % kCifarRow != 0) return false;
  bool some = false;
  for (std::size_t at = 0; at < head.size(); at += kCifarRow, some = true)
    if (static_cast<unsigned char>(head[at]) > 9) return false;
  return some;
}

/// True for the magic and the version of a header of llm.c.
bool is_tokens(std::string_view head) {
  if (head.size() < 8) return false;
  const std::uint64_t magic = little(head.substr(0, 4)), version = little(head.substr(4, 4));
  return (magic == 20240520 && version == 1) || (magic == 20240801 && version == 7);
}

bool starts_as_text(std::string_view head) {
  return !head.empty() && std::all_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

/// Returns the start of the data in `bytes`, which may be gzip or zlib; empty if they are neither.
std::string inflate_front(std::string bytes) {
  constexpr int kEither = 32;  // added to the window's bits, see zlib.h
  std::string out(kHead, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kEither) != Z_OK) return "";
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  inflate(&stream, Z_SYNC_FLUSH);
  out.resize(out.size() - stream.avail_out);
  inflateEnd(&stream);
  return out;
}

/// Returns the format of a file without records, from its name.
Format format_of_empty(const std::string& path) {
  const std::string name = lower(std::filesystem::path(path).filename().string());
  if (name.find(".tfrecord") != name.npos) return Format::tfrecord;
  const std::pair<std::string_view, Format> kEndings[] = {
      {".tar", Format::tar},     {".csv", Format::csv},  {".txt", Format::lines},
      {".bin", Format::cifar10}, {".jpg", Format::jpeg}, {".jpeg", Format::jpeg},
      {".pnr", Format::records}};
  for (const auto& [ending, format] : kEndings)
    if (name.ends_with(ending)) return format;
  return Format::unknown;
}

/// True for as many zeros as end an archive.
bool is_empty_tar(std::string_view head) {
  return head.size() >= 1024 &&
         std::all_of(head.begin(), head.end(), [](char c) { return c == 0; });
}

bool looks_compressed(std::string_view head) {
  if (head.size() < 2) return false;
  if (head.starts_with("\x1f\x8b")) return true;
  const auto first = static_cast<unsigned char>(head[0]);
  const auto second = static_cast<unsigned char>(head[1]);
  return (first & 0x0f) == 8 && (first >> 4) <= 7 && (first * 256 + second) % 31 == 0;
}

}  // namespace

std::string_view name_of(Format format) noexcept {
  constexpr std::array<std::string_view, 13> kNames{
      "a folder of images", "JPEG", "PNG", "tar",  "TFRecord",      "IDX",
      "CIFAR-10",           "npy",  "CSV", "text", "image records", "tokens of llm.c",
      "unknown data"};
  return kNames[static_cast<std::size_t>(format)];
}

Format detect_format(std::string_view head, std::uint64_t size) {
  if (head.starts_with("\xff\xd8\xff")) return Format::jpeg;
  if (head.starts_with("\x89PNG\r\n\x1a\n")) return Format::png;
  if (head.starts_with("\x93NUMPY")) return Format::npy;
  if (head.starts_with("PNSTREC1")) return Format::records;
  if (is_tokens(head)) return Format::tokens;
  if (is_tfrecord(head)) return Format::tfrecord;
  if (is_tar(head)) return Format::tar;
  if (is_idx(head)) return Format::idx;
  if (is_cifar10(head, size)) return Format::cifar10;
  if (!starts_as_text(head)) return Format::unknown;
  return head.substr(0, head.find('\n')).find(',') != head.npos ? Format::csv : Format::lines;
}

namespace {

/// Returns the format of a file that begins with `head` and has `size` bytes (0: not known).
Format format_of(const std::string& path, const std::string& head, std::uint64_t size) {
  const Format empty = format_of_empty(path);
  if (head.empty() || (empty == Format::tar && is_empty_tar(head))) return empty;
  if (!looks_compressed(head)) return detect_format(head, size);
  const std::string front = inflate_front(head);
  const Format inside = front.empty() ? empty : detect_format(front, 0);
  // No other format is read compressed.
  if (inside == Format::tfrecord || inside == Format::idx) return inside;
  return detect_format(head, size);
}

Format detect_remote(const std::string& path) {
  const FileSystemPtr files = default_file_system();
  if (files->is_directory(path)) return Format::folder;
  const std::shared_ptr<File> file = files->open(path);
  std::string head(std::min<std::uint64_t>(kHead, file->info().size), '\0');
  file->read_exactly(0, std::as_writable_bytes(std::span(head)));
  return format_of(std::string(without_query(path)), head, file->info().size);
}

}  // namespace

Format detect_format(const std::string& path) {
  if (is_remote(path)) return detect_remote(path);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (is_directory(status)) return Format::folder;
  // Opening a pipe would wait for a writer.
  if (exists(status) && !is_regular_file(status))
    throw Error(ErrorCode::not_found, "not a regular file", Provenance{path});
  std::ifstream file(path, std::ios::binary);
  if (!file) throw error_from_errno(errno, "open", path);
  std::string head(kHead, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  const std::uint64_t size = std::filesystem::file_size(path, error);
  return format_of(path, head, error ? 0 : size);
}

}  // namespace penstock::tool
