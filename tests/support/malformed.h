// Malformed images, and the libraries' own verdicts on each.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <penstock/limits.h>
#include <penstock/rng.h>

#include "pipeline/image/png_warnings.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_damage.h"

namespace penstock::test {

using ImageBytes = std::vector<std::byte>;

struct Malformed {
  std::string name;  ///< with its extension
  ImageBytes bytes;
  /// The library decodes all of it, within the limits and without a warning that may lose pixels.
  bool good = false;
};

/// Returns the number $PENSTOCK_MALFORMED, or else `few`.
inline std::size_t malformed_count(std::size_t few) {
  const char* text = std::getenv("PENSTOCK_MALFORMED");
  return text == nullptr ? few : static_cast<std::size_t>(std::atoll(text));
}

namespace malformed {

/// One way to damage a file. `share` runs from 0 to 1 over the files that are damaged in this way.
using Damage = std::function<void(ImageBytes&, double share, Rng&)>;
struct Kind {
  const char* name;
  Damage damage;
};

inline void cut(ImageBytes& bytes, double share, Rng&) {
  bytes.resize(static_cast<std::size_t>(share * static_cast<double>(bytes.size())));
}
inline void flip(ImageBytes& bytes, double, Rng& rng) {
  for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips)
    bytes[rng.below(bytes.size())] ^= static_cast<std::byte>(1 << rng.below(8));
}
inline void overwrite(ImageBytes& bytes, double, Rng& rng) {
  const std::size_t at = rng.below(bytes.size());
  const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + rng.below(200));
  const bool zeros = rng.coin(0.5);
  for (std::size_t i = at; i < at + size; ++i)
    bytes[i] = zeros ? std::byte{0} : static_cast<std::byte>(rng.next_u32());
}
inline void repeat(ImageBytes& bytes, double, Rng& rng) {
  const std::size_t at = rng.below(bytes.size());
  const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + rng.below(300));
  const ImageBytes part(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), part.begin(), part.end());
}
inline void erase(ImageBytes& bytes, double, Rng& rng) {
  const std::size_t at = rng.below(bytes.size());
  const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + rng.below(60));
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  bytes.erase(first, first + static_cast<std::ptrdiff_t>(size));
}
inline void other_content(ImageBytes& bytes, double share, Rng&) {
  const std::string_view text = share < 0.5 ? "" : "<!DOCTYPE html><title>404</title>";
  bytes.assign(reinterpret_cast<const std::byte*>(text.data()),
               reinterpret_cast<const std::byte*>(text.data() + text.size()));
}

/// Sets a byte of the first segment with this marker. Files without one stay unchanged.
inline Damage set_byte(int marker, std::size_t offset, int low, int high) {
  return [=](ImageBytes& bytes, double share, Rng&) {
    const std::size_t at = find_marker(bytes, marker);
    if (at == 0 || at + offset >= bytes.size()) return;
    bytes[at + offset] = static_cast<std::byte>(low + share * (high - low));
  };
}
inline Damage set_frame_byte(std::size_t offset, int low, int high) {
  return [=](ImageBytes& bytes, double share, Rng& rng) {
    for (const int marker : {0xc0, 0xc2, 0xc9})
      set_byte(marker, offset, low, high)(bytes, share, rng);
  };
}
inline Damage without(int marker) {
  return [=](ImageBytes& bytes, double, Rng&) {
    for (std::size_t at = find_marker(bytes, marker); at != 0; at = find_marker(bytes, marker))
      bytes[at + 1] = std::byte{0xfe};
  };
}
inline void huge(ImageBytes& bytes, double share, Rng&) {
  const int side = 12'000 + static_cast<int>(share * 53'000);
  bytes = with_dimensions(bytes, side, side);
}
inline void many_scans(ImageBytes& bytes, double share, Rng&) {
  bytes = make_many_scans(40 + static_cast<int>(share * 23), 2);
}
/// Makes a JPEG with a scan that refines nothing new, thousands of times.
inline void repeated_scan(ImageBytes& bytes, double, Rng&) {
  bytes = make_many_scans(1, 1);
  std::size_t last = 0;
  for (std::size_t i = 2; i + 1 < bytes.size(); ++i)
    if (bytes[i] == std::byte{0xff} && bytes[i + 1] == std::byte{0xda}) last = i;
  const ImageBytes scan(bytes.begin() + static_cast<std::ptrdiff_t>(last), bytes.end() - 2);
  bytes.resize(bytes.size() - 2);
  for (int i = 0; i < 3000; ++i) bytes.insert(bytes.end(), scan.begin(), scan.end());
}

inline std::vector<Kind> jpeg_kinds() {
  return {{"cut", cut},
          {"flip", flip},
          {"overwrite", overwrite},
          {"repeat", repeat},
          {"erase", erase},
          {"content", other_content},
          {"huge", huge},
          {"zero_height", [](ImageBytes& b, double, Rng&) { b = with_dimensions(b, 0, 16); }},
          {"zero_width", [](ImageBytes& b, double, Rng&) { b = with_dimensions(b, 16, 0); }},
          {"larger", [](ImageBytes& b, double, Rng&) { b = with_dimensions(b, 333, 444); }},
          {"precision", set_frame_byte(4, 0, 16)},
          {"components", set_frame_byte(9, 0, 255)},
          {"sampling", set_frame_byte(11, 0, 255)},
          {"table_index", set_frame_byte(12, 0, 255)},
          {"process", set_frame_byte(1, 0xc1, 0xcf)},
          {"frame_length", set_frame_byte(3, 0, 255)},
          {"huffman", set_byte(0xc4, 5, 0, 255)},
          {"huffman_id", set_byte(0xc4, 4, 0, 255)},
          {"quantization_id", set_byte(0xdb, 4, 0, 255)},
          {"no_quantization", without(0xdb)},
          {"no_huffman", without(0xc4)},
          {"scan_components", set_byte(0xda, 4, 0, 255)},
          {"scan_table", set_byte(0xda, 6, 0, 255)},
          {"spectrum", set_byte(0xda, 12, 0, 255)},
          {"restart", set_byte(0xdd, 5, 0, 255)},
          {"header_length", set_byte(0xe0, 3, 0, 255)},
          {"many_scans", many_scans},
          {"repeated_scan", repeated_scan}};
}

inline std::vector<ImageBytes> jpegs() {
  return {make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 2}),
          make_jpeg(make_pixels(30, 40, 3), {.restart_interval = 2}),
          make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .progressive = true}),
          make_jpeg(make_pixels(30, 31, 1)),
          make_jpeg(make_pixels(20, 25, 4)),
          make_jpeg(make_pixels(24, 24, 3), {.arithmetic = true})};
}

/// Returns libjpeg-turbo's verdict on a full decode, which ends at its first warning that may lose
/// a coefficient.
inline bool jpeg_is_good(std::span<const std::byte> bytes, const Limits& limits) {
  PlainDecode decode;
  decode.info.err = jpeg_std_error(&decode.errors);
  decode.info.client_data = &decode;
  decode.errors.error_exit = [](j_common_ptr info) {
    std::longjmp(static_cast<PlainDecode*>(info->client_data)->failed, 1);
  };
  decode.errors.emit_message = [](j_common_ptr info, int level) {
    if (level >= 0) return;
    ++info->err->num_warnings;
    const auto& plain = *static_cast<PlainDecode*>(info->client_data);
    if (!image::is_harmless(*reinterpret_cast<j_decompress_ptr>(info), plain.file))
      info->err->error_exit(info);
  };
  std::vector<unsigned char> row(4 * 65'536);
  if (setjmp(decode.failed) != 0) {
    jpeg_destroy_decompress(&decode.info);
    return false;
  }
  decode.file = reinterpret_cast<const JOCTET*>(bytes.data());
  jpeg_create_decompress(&decode.info);
  jpeg_mem_src(&decode.info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&decode.info, TRUE);
  bool good =
      std::uint64_t{decode.info.image_width} * decode.info.image_height <= limits.max_pixels;
  if (good) {
    jpeg_start_decompress(&decode.info);
    judge_scans(decode);
    JSAMPROW rows = row.data();
    while (decode.info.output_scanline < decode.info.output_height)
      jpeg_read_scanlines(&decode.info, &rows, 1);
    jpeg_finish_decompress(&decode.info);
    if (decode.errors.num_warnings > decode.in_header && !jpeg::is_padded(bytes))
      decode.lossy = true;
    good = !decode.lossy && decode.info.input_scan_number <= limits.max_scans;
  }
  jpeg_destroy_decompress(&decode.info);
  return good;
}

/// Corrects the checksum of every chunk of a PNG.
inline void repair_chunks(ImageBytes& file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const auto number = [&](std::size_t i) { return std::to_integer<std::uint32_t>(file[at + i]); };
    const std::size_t length = number(0) << 24 | number(1) << 16 | number(2) << 8 | number(3);
    if (length > file.size() - at - 12) return;
    std::uint32_t crc = ~0U;  // ISO 3309, bit by bit
    for (std::size_t i = at + 4; i < at + 8 + length; ++i) {
      crc ^= std::to_integer<std::uint32_t>(file[i]);
      for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
    }
    crc = ~crc;
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
}

/// The same damage, with correct checksums.
inline Damage repaired(Damage damage) {
  return [damage = std::move(damage)](ImageBytes& bytes, double share, Rng& rng) {
    damage(bytes, share, rng);
    repair_chunks(bytes);
  };
}
inline Damage set_png_byte(std::size_t at, int low, int high) {
  return repaired([=](ImageBytes& bytes, double share, Rng&) {
    bytes.at(at) = static_cast<std::byte>(low + share * (high - low));
  });
}

inline std::vector<Kind> png_kinds() {
  constexpr std::size_t kWidth = 16, kHeight = 20, kDepth = 24, kColor = 25, kMethod = 26;
  constexpr std::size_t kFilter = 27, kInterlace = 28, kSecondChunk = 33;
  return {{"cut", cut},
          {"flip", flip},
          {"flip_repaired", repaired(flip)},
          {"overwrite", overwrite},
          {"overwrite_repaired", repaired(overwrite)},
          {"repeat", repeat},
          {"erase", erase},
          {"content", other_content},
          {"huge_width", set_png_byte(kWidth, 1, 127)},
          {"huge_height", set_png_byte(kHeight, 1, 255)},
          {"wider", set_png_byte(kWidth + 3, 0, 255)},
          {"higher", set_png_byte(kHeight + 3, 0, 255)},
          {"depth", set_png_byte(kDepth, 0, 255)},
          {"color", set_png_byte(kColor, 0, 8)},
          {"method", set_png_byte(kMethod, 0, 255)},
          {"filter", set_png_byte(kFilter, 0, 255)},
          {"interlace", set_png_byte(kInterlace, 0, 4)},
          {"chunk_length", set_png_byte(kSecondChunk + 3, 0, 255)},
          {"chunk_length_huge", set_png_byte(kSecondChunk, 1, 255)},
          {"chunk_name", set_png_byte(kSecondChunk + 4, 0, 255)},
          {"data", set_png_byte(kSecondChunk + 12, 0, 255)}};
}

inline std::vector<ImageBytes> pngs() {
  std::vector<ImageBytes> files;
  const struct {
    int color_type, depth, bits;
  } kinds[] = {{PNG_COLOR_TYPE_GRAY, 4, 4},
               {PNG_COLOR_TYPE_RGB, 8, 24},
               {PNG_COLOR_TYPE_RGB_ALPHA, 16, 64},
               {PNG_COLOR_TYPE_PALETTE, 8, 8}};
  for (const auto& kind : kinds) {
    for (const bool interlaced : {false, true}) {
      const int side = 19;
      const auto stride = static_cast<std::size_t>((side * kind.bits + 7) / 8);
      std::vector<std::uint8_t> rows(stride * side);
      Rng rng(7, static_cast<std::uint64_t>(kind.bits), 0);
      for (std::uint8_t& value : rows) value = static_cast<std::uint8_t>(rng.below(200));
      files.push_back(
          make_png(side, side, rows,
                   {.color_type = kind.color_type, .depth = kind.depth, .interlaced = interlaced}));
    }
  }
  return files;
}

struct PlainPng {
  std::span<const std::byte> left;
  std::jmp_buf failed;
};

/// Returns libpng's verdict on a full decode, which ends at its first warning that may change a
/// pixel.
inline bool png_is_good(std::span<const std::byte> bytes, const Limits& limits) {
  PlainPng plain{bytes, {}};
  const auto fail = [](png_structp png, png_const_charp) {
    std::longjmp(static_cast<PlainPng*>(png_get_error_ptr(png))->failed, 1);
  };
  const auto warn = [](png_structp png, png_const_charp message) {
    if (!image::is_harmless(png, message))
      std::longjmp(static_cast<PlainPng*>(png_get_error_ptr(png))->failed, 1);
  };
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &plain, fail, warn);
  png_infop info = png_create_info_struct(png);
  std::vector<png_byte> pixels;
  std::vector<png_bytep> rows;
  if (setjmp(plain.failed) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_read_fn(png, &plain, [](png_structp reader, png_bytep out, std::size_t size) {
    auto& from = *static_cast<PlainPng*>(png_get_io_ptr(reader));
    if (from.left.size() < size) png_error(reader, "truncated");
    std::copy_n(from.left.begin(), size, reinterpret_cast<std::byte*>(out));
    from.left = from.left.subspan(size);
  });
  png_read_info(png, info);
  const std::uint64_t height = png_get_image_height(png, info);
  const std::uint64_t stride = png_get_rowbytes(png, info);
  bool good = height * png_get_image_width(png, info) <= limits.max_pixels;
  // A plain decoder needs all rows at once, unlike a decoder of one row at a time.
  if (good && height * stride <= std::uint64_t{1} << 30) {
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    pixels.resize(height * stride);
    for (std::uint64_t y = 0; y < height; ++y) rows.push_back(pixels.data() + y * stride);
    png_read_image(png, rows.data());
    png_read_end(png, nullptr);
  }
  png_destroy_read_struct(&png, &info, nullptr);
  return good;
}

using Judge = bool (*)(std::span<const std::byte>, const Limits&);

inline std::vector<Malformed> make(std::size_t count, const std::vector<ImageBytes>& files,
                                   const std::vector<Kind>& kinds, const char* extension,
                                   Judge judge) {
  const std::size_t rounds = std::max<std::size_t>(count / (files.size() * kinds.size()), 1);
  std::vector<Malformed> out;
  for (std::size_t i = 0; out.size() < count; ++i) {
    const Kind& kind = kinds[i % kinds.size()];
    const std::size_t file = i / kinds.size() % files.size();
    const std::size_t round = i / kinds.size() / files.size() % rounds;
    Rng rng(31, i, 0);
    ImageBytes bytes = files[file];
    kind.damage(bytes, static_cast<double>(round) / static_cast<double>(rounds), rng);
    std::string number = std::to_string(i);
    number.insert(0, 6 - std::min<std::size_t>(number.size(), 6), '0');
    const bool good = judge(bytes, Limits());
    out.push_back({number + "-" + kind.name + extension, std::move(bytes), good});
  }
  return out;
}

}  // namespace malformed

/// Returns JPEGs with damage of every kind, a few of which are still good. The same for the same
/// count.
inline std::vector<Malformed> malformed_jpegs(std::size_t count) {
  return malformed::make(count, malformed::jpegs(), malformed::jpeg_kinds(), ".jpg",
                         malformed::jpeg_is_good);
}
inline std::vector<Malformed> malformed_pngs(std::size_t count) {
  return malformed::make(count, malformed::pngs(), malformed::png_kinds(), ".png",
                         malformed::png_is_good);
}

}  // namespace penstock::test
