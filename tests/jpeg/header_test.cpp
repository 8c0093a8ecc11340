#include "pipeline/jpeg/header.h"

#include <string>

#include <gtest/gtest.h>

#include "pipeline/jpeg/huffman.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_damage.h"

namespace penstock::jpeg {
namespace {

using test::make_jpeg;
using test::make_pixels;
using Bytes = std::vector<std::byte>;

std::string verdict(const Bytes& bytes) {
  Header header;
  return name_of(read_header(bytes, header));
}

Bytes with_byte(Bytes bytes, int marker, std::size_t offset, int value) {
  const std::size_t at = test::find_marker(bytes, marker);
  bytes.at(at + offset) = static_cast<std::byte>(value);
  return bytes;
}

TEST(JpegHeader, SaysWhatAFileIs) {
  Header header;
  const Bytes bytes =
      make_jpeg(make_pixels(33, 45, 3), {.horizontal = 2, .vertical = 1, .restart_interval = 7});
  ASSERT_EQ(read_header(bytes, header), Foreign::none);
  EXPECT_EQ(header.width, 45);
  EXPECT_EQ(header.height, 33);
  EXPECT_EQ(header.component_count, 3);
  EXPECT_EQ(header.max_horizontal, 2);
  EXPECT_EQ(header.max_vertical, 1);
  EXPECT_EQ(header.color, ColorModel::ycc);
  EXPECT_EQ(header.restart_interval, 7);
  EXPECT_EQ(header.scan, test::find_marker(bytes, 0xda) + 14);
}

TEST(JpegHeader, LeavesOthersToTheLibraryByReason) {
  const Bytes plain = make_jpeg(make_pixels(20, 20, 3));
  const struct {
    const char* reason;
    Bytes bytes;
  } cases[] = {
      {"none", plain},
      {"none", make_jpeg(make_pixels(20, 20, 1))},
      {"none", make_jpeg(make_pixels(20, 20, 3), {.rgb = true})},
      {"progressive", make_jpeg(make_pixels(20, 20, 3), {.progressive = true})},
      {"arithmetic", make_jpeg(make_pixels(20, 20, 3), {.arithmetic = true})},
      {"components", make_jpeg(make_pixels(20, 20, 4))},
      {"lossless", with_byte(plain, 0xc0, 1, 0xc3)},
      {"precision", with_byte(plain, 0xc0, 4, 12)},
      {"sampling", with_byte(plain, 0xc0, 11, 0x51)},
      {"header", with_byte(plain, 0xc0, 6, 0)},
      {"scans", with_byte(plain, 0xda, 5, 9)},
      {"header", with_byte(plain, 0xda, 11, 1)},
      {"tables", with_byte(plain, 0xda, 6, 0x33)},
      {"header", with_byte(plain, 0xe0, 9, 2)},
      {"header", Bytes()},
  };
  int number = 0;
  for (const auto& each : cases) EXPECT_EQ(verdict(each.bytes), each.reason) << number++;
}

TEST(JpegHeader, TruncationAnywhere) {
  const Bytes bytes = make_jpeg(make_pixels(20, 20, 3));
  const std::size_t scan = test::find_marker(bytes, 0xda) + 14;
  for (std::size_t size = 0; size < scan; ++size)
    EXPECT_NE(verdict(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))),
              "none")
        << size;
}

TEST(JpegTables, RefuseWhatIsNoPrefixCode) {
  TableCache cache;
  cache.begin();
  HuffmanSpec spec;
  spec.counts[0] = 1;
  EXPECT_NE(cache.ac(spec), nullptr);
  spec.counts[0] = 2;  // all ones
  EXPECT_EQ(cache.ac(spec), nullptr);
  spec.counts = {0, 3, 1};
  EXPECT_NE(cache.ac(spec), nullptr);
  spec.counts = {0, 3, 2};
  EXPECT_EQ(cache.ac(spec), nullptr);
  spec.counts = {1, 0, 0, 200};
  EXPECT_EQ(cache.ac(spec), nullptr);
  spec.counts = {0, 2};
  spec.symbols[1] = 16;
  EXPECT_EQ(cache.dc(spec), nullptr);
  EXPECT_NE(cache.ac(spec), nullptr);
}

TEST(JpegTables, AreKeptByContent) {
  TableCache cache;
  HuffmanSpec spec;
  spec.counts = {0, 3};
  const auto with = [&](int symbol) {
    spec.symbols[0] = static_cast<std::uint8_t>(symbol);
    return cache.ac(spec);
  };
  cache.begin();
  const AcTable* first = with(1);
  EXPECT_EQ(with(1), first);
  for (int i = 2; i < 100; ++i) {
    cache.begin();
    EXPECT_NE(with(i), nullptr);
    EXPECT_EQ(with(1), first) << "used all the time";
  }
}

}  // namespace
}  // namespace penstock::jpeg
