// Images that are not quite as they should be: with all their pixels, and without.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/images.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/malformed.h"

namespace penstock::test {

struct OddImage {
  std::string name;  ///< with its extension
  ImageBytes bytes;
  Pixels pixels{};  ///< of the same image without the oddity; empty where pixels are lost
};

namespace odd {

inline ImageBytes bytes_of(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

inline ImageBytes with(ImageBytes bytes, std::size_t at, const ImageBytes& more) {
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
  return bytes;
}

/// Returns the offsets of all markers 0xff `marker`, also behind and within scans.
inline std::vector<std::size_t> markers(const ImageBytes& jpeg, int marker) {
  std::vector<std::size_t> found;
  for (std::size_t at = 2; at + 1 < jpeg.size();) {
    const auto code = std::to_integer<int>(jpeg[at + 1]);
    if (code == marker) found.push_back(at);
    const bool restart = code >= 0xd0 && code <= 0xd7;
    at += 2;
    if (code == 0xd9) break;
    if (!restart)
      at +=
          std::to_integer<std::size_t>(jpeg[at]) << 8 | std::to_integer<std::size_t>(jpeg[at + 1]);
    if (!restart && code != 0xda) continue;
    while (at + 1 < jpeg.size() && (jpeg[at] != std::byte{0xff} || jpeg[at + 1] == std::byte{0}))
      ++at;
  }
  return found;
}

/// Bytes without a marker: two, some with a stuffed zero, and more than libjpeg reads ahead. The
/// last begin with their number, as a segment does behind its marker.
inline ImageBytes stray(std::size_t kind) {
  if (kind % 3 == 0) return bytes_of({"\x02\x58", 2});
  if (kind % 3 == 1) return bytes_of({"\x12\xff\x00\x34\x56", 5});
  ImageBytes bytes;
  for (int i = 0; i < 258; ++i) bytes.push_back(static_cast<std::byte>(1 + i % 200));
  return bytes;
}

inline std::vector<std::pair<std::string, ImageBytes>> jpegs() {
  const ImageBytes comment = bytes_of({"\xff\xfe\x00\x06note", 8});
  std::vector<std::pair<std::string, ImageBytes>> files{
      {"420", make_jpeg(make_pixels(40, 56, 3), {.horizontal = 2, .vertical = 2})},
      {"restarts", make_jpeg(make_pixels(40, 56, 3), {.restart_interval = 3})},
      {"gray", make_jpeg(make_pixels(30, 31, 1))},
      {"progressive",
       make_jpeg(make_pixels(40, 56, 3), {.horizontal = 2, .vertical = 2, .progressive = true})},
      {"arithmetic", make_jpeg(make_pixels(24, 24, 3), {.arithmetic = true})},
  };
  // In front of APP0 and behind it.
  for (auto& [name, bytes] : files) bytes = with(with(bytes, 20, comment), 2, comment);
  return files;
}

/// A chunk with a correct checksum.
inline ImageBytes chunk(std::string_view type, std::string_view body) {
  ImageBytes bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::byte>(body.size() >> shift));
  bytes = with(bytes, 4, bytes_of(type));
  bytes = with(bytes, 8, bytes_of(body));
  bytes.resize(bytes.size() + 4);
  ImageBytes file(8);  // in place of the signature
  file.insert(file.end(), bytes.begin(), bytes.end());
  malformed::repair_chunks(file);
  return {file.begin() + 8, file.end()};
}

/// Returns the offset of the first chunk of this type.
inline std::size_t find_chunk(const ImageBytes& png, std::string_view type) {
  const ImageBytes wanted = bytes_of(type);
  return static_cast<std::size_t>(
             std::search(png.begin(), png.end(), wanted.begin(), wanted.end()) - png.begin()) -
         4;
}

struct PngBase {
  std::string name;
  ImageBytes bytes;
  Pixels pixels;
  int color_type;
};

/// PNGs of each color type and depth 8, plain and interlaced, with pixels known from before they
/// were encoded.
inline std::vector<PngBase> pngs() {
  std::vector<PngBase> files;
  for (const bool interlaced : {false, true}) {
    const std::string suffix = interlaced ? "_interlaced" : "";
    const auto add = [&](const char* name, int color_type, const Pixels& pixels,
                         const std::vector<std::uint8_t>& rows) {
      files.push_back({name + suffix,
                       make_png(pixels.height, pixels.width, rows,
                                {.color_type = color_type, .interlaced = interlaced}),
                       pixels, color_type});
    };
    const auto with_alpha = [](const Pixels& pixels) {
      std::vector<std::uint8_t> rows;
      for (std::size_t i = 0; i < pixels.values.size(); ++i) {
        rows.push_back(pixels.values[i]);
        if (static_cast<int>(i) % pixels.channels == pixels.channels - 1)
          rows.push_back(static_cast<std::uint8_t>(i * 5));
      }
      return rows;
    };
    const Pixels gray = make_pixels(13, 17, 1);
    const Pixels rgb = make_pixels(13, 17, 3);
    Pixels indexed{13, 17, 3, {}};
    for (const std::uint8_t i : gray.values)  // the palette of make_png
      for (const int value : {i * 7, 255 - i, i * 31})
        indexed.values.push_back(static_cast<std::uint8_t>(value));
    add("gray", PNG_COLOR_TYPE_GRAY, gray, gray.values);
    add("gray_alpha", PNG_COLOR_TYPE_GRAY_ALPHA, gray, with_alpha(gray));
    add("rgb", PNG_COLOR_TYPE_RGB, rgb, rgb.values);
    add("rgba", PNG_COLOR_TYPE_RGB_ALPHA, rgb, with_alpha(rgb));
    add("palette", PNG_COLOR_TYPE_PALETTE, indexed, gray.values);
  }
  return files;
}

/// Adds bytes to the first IDAT chunk, behind its compressed data.
inline ImageBytes with_data(const PngBase& base, const ImageBytes& more) {
  const std::size_t at = find_chunk(base.bytes, "IDAT");
  ImageBytes bytes = base.bytes;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length = length << 8 | std::to_integer<std::size_t>(bytes[at + i]);
  bytes = with(bytes, at + 8 + length, more);
  length += more.size();
  for (std::size_t i = 0; i < 4; ++i)
    bytes[at + i] = static_cast<std::byte>(length >> (24 - 8 * i));
  malformed::repair_chunks(bytes);
  return bytes;
}

inline ImageBytes with_wrong_checksum(ImageBytes chunk) {
  chunk.back() ^= std::byte{0x10};
  return chunk;
}

}  // namespace odd

/// Returns JPEGs with stray bytes in front of each kind of marker, and with an unknown revision of
/// JFIF. All coefficients are there.
inline std::vector<OddImage> odd_jpegs() {
  std::vector<OddImage> images;
  std::size_t kind = 0;
  for (const auto& file : odd::jpegs()) {
    const std::string& name = file.first;
    const ImageBytes& bytes = file.second;
    const Pixels pixels = decode_jpeg_plainly(bytes);
    const auto add = [&](const std::string& what, ImageBytes odd) {
      images.push_back({name + "_" + what + ".jpg", std::move(odd), pixels});
    };
    const std::pair<const char*, int> kinds[] = {{"app0", 0xe0}, {"com", 0xfe},  {"dqt", 0xdb},
                                                 {"sof", 0xc0},  {"sof2", 0xc2}, {"dht", 0xc4},
                                                 {"sos", 0xda},  {"eoi", 0xd9},  {"rst0", 0xd0},
                                                 {"rst2", 0xd2}, {"rst7", 0xd7}};
    for (const auto& [marker, code] : kinds) {
      const std::vector<std::size_t> places = odd::markers(bytes, code);
      if (places.empty()) continue;
      // The first and the last: of a progressive file, between scans. No bytes may precede the
      // marker behind SOI, by which a JPEG is known.
      const std::size_t first = places.front() == 2 ? places.back() : places.front();
      add(std::string("before_") + marker, odd::with(bytes, first, odd::stray(kind++)));
      add(std::string("long_before_") + marker, odd::with(bytes, places.back(), odd::stray(2)));
    }
    ImageBytes revision = bytes;
    revision[odd::markers(bytes, 0xe0).front() + 9] = std::byte{2};
    add("jfif_2", std::move(revision));
  }
  return images;
}

/// Returns PNGs with chunks and bytes that are damaged or do not belong there. None of them says
/// anything about pixels.
inline std::vector<OddImage> odd_pngs() {
  std::vector<OddImage> images;
  for (const odd::PngBase& base : odd::pngs()) {
    const std::size_t data = odd::find_chunk(base.bytes, "IDAT");
    const std::size_t end = odd::find_chunk(base.bytes, "IEND");
    const auto add = [&](const std::string& what, ImageBytes bytes) {
      images.push_back({base.name + "_" + what + ".png", std::move(bytes), base.pixels});
    };
    const auto insert = [&](std::size_t at, const ImageBytes& chunk) {
      return odd::with(base.bytes, at, chunk);
    };
    const std::string zeros(400, '\0');
    add("long_trns", insert(data, odd::chunk("tRNS", zeros)));
    add("empty_trns", insert(data, odd::chunk("tRNS", "")));
    add("damaged_text", insert(data, odd::with_wrong_checksum(odd::chunk("tEXt", "Comment\0x"))));
    add("damaged_time", insert(end, odd::with_wrong_checksum(odd::chunk("tIME", "1234567"))));
    add("damaged_exif", insert(data, odd::with_wrong_checksum(odd::chunk("eXIf", "MM\0*"))));
    add("damaged_trns", insert(data, odd::with_wrong_checksum(odd::chunk("tRNS", "ab"))));
    add("more_data", odd::with_data(base, odd::bytes_of("abcd")));
    add("data_behind", insert(end, odd::chunk("IDAT", "abcd")));
    const ImageBytes endless(base.bytes.begin(),
                             base.bytes.begin() + static_cast<std::ptrdiff_t>(end));
    add("long_end", odd::with(endless, end, odd::chunk("IEND", "abcd")));
    add("bytes_behind", insert(base.bytes.size(), odd::bytes_of("abcd")));
    const bool colored = (base.color_type & PNG_COLOR_MASK_COLOR) != 0;
    if (!colored) add("plte", insert(data, odd::chunk("PLTE", zeros.substr(0, 48))));
    if (base.color_type == PNG_COLOR_TYPE_RGB)
      add("odd_plte", insert(data, odd::chunk("PLTE", zeros.substr(0, 50))));
    if (base.color_type == PNG_COLOR_TYPE_PALETTE)
      add("early_trns", insert(odd::find_chunk(base.bytes, "PLTE"), odd::chunk("tRNS", "abc")));
  }
  return images;
}

/// Returns images like those above that have lost pixels, or may have.
inline std::vector<OddImage> lossy_images() {
  std::vector<OddImage> images;
  for (const auto& file : odd::jpegs()) {
    const std::string& name = file.first;
    const ImageBytes& bytes = file.second;
    const auto add = [&](const std::string& what, ImageBytes odd) {
      images.push_back({name + "_" + what + ".jpg", std::move(odd)});
    };
    // A segment without its marker looks like stray bytes.
    for (const auto& [marker, code] : std::vector<std::pair<const char*, int>>{
             {"dqt", 0xdb}, {"dht", 0xc4}, {"sos", 0xda}, {"dri", 0xdd}}) {
      const std::vector<std::size_t> places = odd::markers(bytes, code);
      for (const bool first : {true, false}) {
        if (places.empty()) continue;
        for (const int value : {0x7f, 0xdf}) {
          ImageBytes lost = bytes;
          lost[first ? places.front() : places.back()] = static_cast<std::byte>(value);
          add(std::string("lost_") + marker, std::move(lost));
        }
        ImageBytes other = bytes;  // a marker that no segment follows
        other[(first ? places.front() : places.back()) + 1] = std::byte{0xd3};
        add(std::string("other_") + marker, std::move(other));
      }
    }
    const std::size_t end = odd::markers(bytes, 0xd9).front();
    ImageBytes cut = bytes;
    cut.resize(end);
    add("no_eoi", cut);
    add("stray_and_no_eoi", odd::with(cut, end, odd::stray(2)));
    ImageBytes shortened = bytes;
    shortened.erase(shortened.begin() + static_cast<std::ptrdiff_t>(end - 6),
                    shortened.begin() + static_cast<std::ptrdiff_t>(end));
    if (name != "arithmetic") add("short_scan", std::move(shortened));  // it is padded with zeros
    const std::vector<std::size_t> restarts = odd::markers(bytes, 0xd2);
    if (!restarts.empty()) {
      ImageBytes other = bytes;
      other[restarts.front() + 1] = std::byte{0xd4};
      add("other_rst", std::move(other));
    }
  }
  for (const odd::PngBase& base : odd::pngs()) {
    const auto add = [&](const std::string& what, ImageBytes bytes) {
      images.push_back({base.name + "_" + what + ".png", std::move(bytes)});
    };
    const std::size_t data = odd::find_chunk(base.bytes, "IDAT");
    const std::size_t end = odd::find_chunk(base.bytes, "IEND");
    ImageBytes damaged = base.bytes;
    damaged[end - 1] ^= std::byte{1};  // the chunk's checksum
    add("idat_crc", damaged);
    damaged = base.bytes;
    damaged[end - 5] ^= std::byte{1};  // the pixels' checksum
    malformed::repair_chunks(damaged);
    add("adler", damaged);
    damaged = base.bytes;
    damaged[data + 4] = std::byte{'i'};  // now metadata
    add("no_idat", damaged);
    damaged = base.bytes;
    damaged.resize(end);
    add("no_iend", damaged);
  }
  return images;
}

}  // namespace penstock::test
