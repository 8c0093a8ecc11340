// The forms in which writers store an image's orientation.
#include "pipeline/codec/exif.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/deflate.h"
#include "tests/support/files.h"

namespace penstock::image {
namespace {

using namespace std::string_literals;
using test::as_bytes;

std::string number(std::uint64_t value, int width, bool little) {
  std::string bytes;
  for (int i = 0; i < width; ++i)
    bytes += static_cast<char>(value >> (8 * (little ? i : width - 1 - i)));
  return bytes;
}

/// Returns a TIFF structure with the orientation as that type.
std::string tiff(bool little, int type, std::uint64_t value) {
  const auto of = [little](std::uint64_t number_, int width) {
    return number(number_, width, little);
  };
  return (little ? "II"s : "MM"s) + of(42, 2) + of(8, 4) + of(2, 2) +
         // The width, which comes first.
         of(0x0100, 2) + of(4, 2) + of(1, 4) + of(9, 4) +  //
         of(0x0112, 2) + of(static_cast<std::uint64_t>(type), 2) + of(1, 4) +
         (type == 3 ? of(value, 2) + of(0, 2) : of(value, 4)) + of(0, 4);
}

TEST(Exif, ShortAndLongOrientation) {
  for (const bool little : {false, true}) {
    for (int value = 1; value <= 8; ++value) {
      for (const int type : {3, 4}) {
        const std::string bytes = tiff(little, type, static_cast<std::uint64_t>(value));
        EXPECT_EQ(exif_orientation(as_bytes(bytes)), value) << type;
        const std::string app1 = "Exif\0\0"s + bytes;
        const std::string jpeg = "\xff\xd8\xff\xe1" + number(app1.size() + 2, 2, false) + app1 +
                                 "\xff\xda" + std::string(9, '\0');
        EXPECT_EQ(jpeg_orientation(as_bytes(jpeg)), value) << type;
      }
    }
    for (const std::uint64_t none : {0ULL, 9ULL, 0x10006ULL, 0x60000ULL, 0xffffffffULL})
      EXPECT_EQ(exif_orientation(as_bytes(tiff(little, 4, none))), 1) << none;
    for (const int type : {1, 2, 5, 7, 12})
      EXPECT_EQ(exif_orientation(as_bytes(tiff(little, type, 6))), 1) << type;
  }
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
  return number(data.size(), 4, false) + body + number(crc32_z(0, bytes, body.size()), 4, false);
}

/// Returns the chunks of a PNG that matter here.
std::string png(const std::string& before, const std::string& behind = "") {
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", std::string(13, '\0')) + before +
         chunk("IDAT", test::noise(50)) + chunk("IDAT", test::noise(40)) + behind +
         chunk("IEND", "");
}

/// Returns a raw profile as ImageMagick writes it: "\nexif\n      40\n", and 72 digits a line.
std::string raw_profile(const std::string& name, const std::string& data, bool upper = false) {
  const char* const digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string text = "\n" + name + "\n";
  text += std::string(8 - std::to_string(data.size()).size(), ' ') + std::to_string(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (i % 36 == 0) text += '\n';
    text += digits[static_cast<unsigned char>(data[i]) / 16];
    text += digits[static_cast<unsigned char>(data[i]) % 16];
  }
  return text + "\n";
}

std::string text_chunk(const std::string& name, const std::string& profile, bool packed) {
  const std::string keyword = "Raw profile type " + name + '\0';
  return packed ? chunk("zTXt", keyword + '\0' + test::deflated(profile, test::Wrapper::zlib))
                : chunk("tEXt", keyword + profile);
}

int orientation_of(const std::string& bytes) {
  return png_orientation(as_bytes(bytes));
}

TEST(Exif, OfAPngLiesBeforeOrBehindItsPixels) {
  for (const bool little : {false, true}) {
    for (const int type : {3, 4}) {
      const std::string exif = chunk("eXIf", tiff(little, type, 6));
      EXPECT_EQ(orientation_of(png(exif)), 6);
      EXPECT_EQ(orientation_of(png("", exif)), 6);
      EXPECT_EQ(orientation_of(png(chunk("tEXt", "Title\0x"s), chunk("tIME", "1234567") + exif)),
                6);
      EXPECT_EQ(orientation_of(png(chunk("eXIf", "Exif\0\0"s + tiff(little, type, 6)))), 6);
      EXPECT_EQ(orientation_of(png("") + exif), 1) << "behind the end";
    }
  }
}

TEST(Exif, OfAPngMayBeARawProfile) {
  for (const bool packed : {false, true}) {
    for (const char* name : {"exif", "APP1"}) {
      for (const std::string& prefix : {""s, "Exif\0\0"s}) {
        const std::string data = prefix + tiff(false, 3, 8) + std::string(100, 'x');
        for (const bool upper : {false, true}) {
          const std::string text = text_chunk(name, raw_profile(name, data, upper), packed);
          EXPECT_EQ(orientation_of(png(text)), 8) << name << packed;
          EXPECT_EQ(orientation_of(png("", text)), 8) << name << packed;
        }
      }
    }
    // Of other profiles, and of XMP in an APP1, there is none.
    EXPECT_EQ(orientation_of(png(text_chunk("icc", raw_profile("icc", tiff(false, 3, 8)), packed))),
              1);
    EXPECT_EQ(orientation_of(png(text_chunk(
                  "APP1", raw_profile("APP1", "http://ns.adobe.com/xap/1.0/\0<x>"s), packed))),
              1);
    // The chunk that is made for it counts more.
    const std::string text = text_chunk("exif", raw_profile("exif", tiff(true, 3, 8)), packed);
    EXPECT_EQ(orientation_of(png(text, chunk("eXIf", tiff(true, 3, 3)))), 3);
  }
}

TEST(Exif, DamagedRawProfile) {
  for (const bool packed : {false, true}) {
    const std::string sound =
        png(text_chunk("exif", raw_profile("exif", "Exif\0\0"s + tiff(true, 4, 6)), packed));
    ASSERT_EQ(orientation_of(sound), 6);
    for (std::size_t at = 8; at < sound.size(); ++at) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      const int orientation = orientation_of(damaged);
      EXPECT_TRUE(orientation >= 1 && orientation <= 8) << at;
      EXPECT_LE(orientation_of(sound.substr(0, at)), 8);
    }
  }
  // What inflates to much without a digit ends soon.
  const std::string blanks(20 << 20, '\n');
  EXPECT_EQ(orientation_of(png(text_chunk("exif", blanks, true))), 1);
  const std::string zeros(1 << 20, '0');
  EXPECT_EQ(orientation_of(png(text_chunk("exif", "\nexif\n1\n" + zeros, true))), 1);
}

}  // namespace
}  // namespace penstock::image
