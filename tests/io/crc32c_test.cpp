
#include <gtest/gtest.h>

#include <penstock/internal/crc32c.h>

#include "tests/support/files.h"

namespace penstock {
namespace {

/// Bit by bit, as the definition says.
std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
  }
  return ~crc;
}

std::string counting(int from, int step) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(from + i * step));
  return bytes;
}

TEST(Crc32c, Rfc3720Vectors) {
  const std::pair<std::string, std::uint32_t> vectors[] = {
      {std::string(32, '\0'), 0x8a9136aaU}, {std::string(32, '\xff'), 0x62a8ab43U},
      {counting(0, 1), 0x46dd794eU},        {counting(31, -1), 0x113fdb5cU},
      {"123456789", 0xe3069283U},           {"", 0}};
  for (const auto& [bytes, crc] : vectors) EXPECT_EQ(crc32c(test::as_bytes(bytes)), crc);
}

TEST(Crc32c, EqualsTheDefinitionAtEveryLengthAndAlignment) {
  const std::string bytes = test::noise(5000);
  for (std::size_t n = 0; n < 1200; ++n) {
    const std::string_view part = std::string_view(bytes).substr(n % 17, n);
    ASSERT_EQ(crc32c(test::as_bytes(part)), slow_crc32c(part)) << n;
  }
  EXPECT_EQ(crc32c(test::as_bytes(bytes)), slow_crc32c(bytes));
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::string bytes = test::noise(1000);
  const auto all = test::as_bytes(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 37)
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all));
}

TEST(Crc32c, MaskOfTFRecord) {
  // The length 5 and the text "hello" of a record that TensorFlow wrote.
  const std::string length("\x05\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(mask_crc32c(crc32c(test::as_bytes(length))), 0x3e04b2eaU);
  EXPECT_EQ(mask_crc32c(crc32c(test::as_bytes("hello"))), 0x191c1fbbU);
}

}  // namespace
}  // namespace penstock
