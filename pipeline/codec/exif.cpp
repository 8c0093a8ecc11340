#include "pipeline/codec/exif.h"

#include <array>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <zlib.h>

namespace penstock::image {

namespace {

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, bool little) : bytes_(bytes), little_(little) {}

  /// Returns an unsigned number of `size` bytes at `offset`, or 0 beyond the end.
  std::uint32_t number(std::size_t offset, std::size_t size) const noexcept {
    if (offset > bytes_.size() || bytes_.size() - offset < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t at = offset + (little_ ? size - 1 - i : i);
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at]);
    }
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

constexpr std::size_t kEntrySize = 12;
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::uint32_t kLong = 4;
constexpr std::string_view kExif("Exif\0\0", 6);

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

/// Returns the checksum of a PNG chunk's type and body.
std::uint32_t checksum(std::string_view chunk) noexcept {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size()));
}

/// Returns the TIFF structure of data that may begin with the mark of a JPEG's segment.
std::string_view without_exif(std::string_view data) noexcept {
  return data.starts_with(kExif) ? data.substr(kExif.size()) : data;
}

/// A decoder of a raw profile: a line without text, its name, its size, and hexadecimal digits in
/// lines. Source: ImageMagick, coders/png.c, Magick_png_write_raw_profile.
class RawProfile {
 public:
  /// The most bytes that an orientation is looked for in: as many as a JPEG's segment holds.
  static constexpr std::size_t kMost = 64 << 10;

  /// Takes the next part of the text. Returns false if no more is needed.
  bool take(std::string_view part) {
    // Lines of 72 digits take less. Without this, what inflates to blanks would have no end.
    taken_ += part.size();
    if (taken_ > 3 * kMost) return false;
    for (const char c : part) {
      if (lines_ < kLinesBefore) {
        lines_ += c == '\n' ? 1 : 0;
        continue;
      }
      const int digit = value_of(c);
      if (digit < 0) continue;  // the end of a line
      if (high_ < 0) {
        high_ = digit;
        continue;
      }
      bytes_.push_back(static_cast<char>(high_ * 16 + digit));
      high_ = -1;
      if (bytes_.size() == kMost) return false;
    }
    return true;
  }
  std::string bytes() && { return std::move(bytes_); }

 private:
  static constexpr int kLinesBefore = 3;

  static int value_of(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

  std::size_t taken_ = 0;
  int lines_ = 0;
  int high_ = -1;
  std::string bytes_;
};

/// Inflates zlib data into the profile, as far as they are sound.
void inflate_to(RawProfile& profile, std::string_view data) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  std::array<char, 4096> part;
  bool more = true;
  try {
    while (more) {
      stream.next_out = reinterpret_cast<Bytef*>(part.data());
      stream.avail_out = static_cast<uInt>(part.size());
      more = inflate(&stream, Z_NO_FLUSH) == Z_OK && stream.avail_out < part.size();
      more = profile.take({part.data(), part.size() - stream.avail_out}) && more;
    }
  } catch (...) {
    inflateEnd(&stream);
    throw;
  }
  inflateEnd(&stream);
}

/// Returns the bytes of the profile in a chunk of text, if it is one of Exif; else an empty string.
/// Source: PNG (Third Edition), 11.3.3: a keyword, a zero, and in zTXt the method of compression.
std::string raw_profile(std::string_view type, std::string_view body) {
  const std::size_t end = body.find('\0');
  const std::string_view keyword = body.substr(0, end);
  if (keyword != "Raw profile type exif" && keyword != "Raw profile type APP1") return {};
  if (end == std::string_view::npos) return {};
  const std::string_view text = body.substr(end + 1);
  RawProfile profile;
  if (type == "tEXt") {
    profile.take(text);
  } else if (text.starts_with('\0')) {
    inflate_to(profile, text.substr(1));
  }
  return std::move(profile).bytes();
}

}  // namespace

int exif_orientation(std::span<const std::byte> tiff) noexcept {
  if (tiff.size() < 8) return 1;
  const bool little = tiff[0] == std::byte{'I'};
  const Reader reader(tiff, little);
  if (reader.number(0, 2) != (little ? 0x4949U : 0x4d4dU) || reader.number(2, 2) != 42) return 1;
  const std::size_t directory = reader.number(4, 4);
  const std::size_t entries = reader.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntrySize;
    if (entry + kEntrySize > tiff.size()) return 1;
    if (reader.number(entry, 2) != kOrientationTag) continue;
    const std::uint32_t type = reader.number(entry + 2, 2);
    const std::uint32_t value = reader.number(entry + 8, type == kLong ? 4 : 2);
    const bool valid = (type == kShort || type == kLong) && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : 1;
  }
  return 1;
}

int jpeg_orientation(std::span<const std::byte> jpeg) noexcept {
  const Reader reader(jpeg, false);
  std::size_t at = 2;
  while (at + 4 <= jpeg.size()) {
    const std::uint32_t marker = reader.number(at + 1, 1);
    // Stray bytes and fill bytes are skipped, as by libjpeg.
    if (jpeg[at] != std::byte{0xff} || marker == 0xff) {
      ++at;
      continue;
    }
    if (marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {  // no length follows
      at += 2;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) return 1;
    const std::size_t length = reader.number(at + 2, 2);
    if (length < 2 || length > jpeg.size() - at - 2) return 1;
    const std::span<const std::byte> body = jpeg.subspan(at + 4, length - 2);
    if (marker == 0xe1 && body.size() > kExif.size() && text_of(body).starts_with(kExif)) {
      return exif_orientation(body.subspan(kExif.size()));
    }
    at += 2 + length;
  }
  return 1;
}

int png_orientation(std::span<const std::byte> png) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kHead = 8;  // length and type
  constexpr std::size_t kChecksum = 4;
  const std::string_view text = text_of(png);
  const Reader reader(png, false);
  std::string profile;
  for (std::size_t at = kSignature; at + kHead + kChecksum <= png.size();) {
    const std::size_t length = reader.number(at, 4);
    if (length > png.size() - at - kHead - kChecksum) break;
    const std::string_view type = text.substr(at + 4, 4);
    const std::string_view body = text.substr(at + kHead, length);
    const std::size_t end = at + kHead + length;
    const auto sound = [&] {
      return checksum(text.substr(at + 4, 4 + length)) == reader.number(end, kChecksum);
    };
    if (type == "eXIf" && sound()) return exif_orientation(bytes_of(without_exif(body)));
    if (type == "IEND") break;
    if (profile.empty() && (type == "zTXt" || type == "tEXt")) {
      profile = raw_profile(type, body);
      if (!profile.empty() && !sound()) profile.clear();
    }
    at = end + kChecksum;
  }
  return exif_orientation(bytes_of(without_exif(profile)));
}

}  // namespace penstock::image
