#include "pipeline/codec/exif.h"

#include <algorithm>
#include <array>
#include <cstdint>

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
    const std::uint32_t value = reader.number(entry + 8, 2);
    const bool valid = reader.number(entry + 2, 2) == kShort && value >= 1 && value <= 8;
    return valid ? static_cast<int>(value) : 1;
  }
  return 1;
}

int jpeg_orientation(std::span<const std::byte> jpeg) noexcept {
  constexpr std::array<std::byte, 6> kExif = {std::byte{'E'}, std::byte{'x'}, std::byte{'i'},
                                              std::byte{'f'}, std::byte{0},   std::byte{0}};
  const Reader reader(jpeg, false);
  std::size_t at = 2;
  while (at + 4 <= jpeg.size()) {
    if (jpeg[at] != std::byte{0xff}) return 1;
    const std::uint32_t marker = reader.number(at + 1, 1);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {  // no length follows
      at += 2;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) return 1;
    const std::size_t length = reader.number(at + 2, 2);
    if (length < 2 || length > jpeg.size() - at - 2) return 1;
    const std::span<const std::byte> body = jpeg.subspan(at + 4, length - 2);
    if (marker == 0xe1 && body.size() > kExif.size() &&
        std::equal(kExif.begin(), kExif.end(), body.begin())) {
      return exif_orientation(body.subspan(kExif.size()));
    }
    at += 2 + length;
  }
  return 1;
}

int png_orientation(std::span<const std::byte> png) noexcept {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kHead = 8;  // length and type
  constexpr std::size_t kChecksum = 4;
  constexpr std::uint32_t kExif = 0x65584966;
  constexpr std::uint32_t kPixels = 0x49444154;
  const Reader reader(png, false);
  std::size_t at = kSignature;
  while (at + kHead + kChecksum <= png.size()) {
    const std::size_t length = reader.number(at, 4);
    const std::uint32_t type = reader.number(at + 4, 4);
    if (type == kPixels || length > png.size() - at - kHead - kChecksum) return 1;
    if (type == kExif) return exif_orientation(png.subspan(at + kHead, length));
    at += kHead + length + kChecksum;
  }
  return 1;
}

}  // namespace penstock::image
