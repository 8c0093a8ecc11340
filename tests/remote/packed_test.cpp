#include "pipeline/remote/packed.h"

#include <algorithm>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>

namespace penstock::remote {
namespace {

using Bytes = std::vector<std::byte>;
using Pieces = std::vector<std::span<const std::byte>>;

/// Of `kinds` kinds of bytes in runs: the fewer, the smaller it becomes.
Bytes made(std::size_t size, int kinds, unsigned seed = 1) {
  std::minstd_rand random(seed);
  Bytes bytes(size);
  for (std::size_t i = 0; i < size;) {
    const auto value = static_cast<std::byte>(random() % static_cast<unsigned>(kinds));
    for (std::size_t run = kinds > 200 ? 1 : random() % 30; run > 0 && i < size; --run)
      bytes[i++] = value;
  }
  return bytes;
}

Pieces cut(const Bytes& bytes, std::size_t each) {
  Pieces pieces;
  for (std::size_t i = 0; i < bytes.size(); i += each) {
    pieces.push_back(std::span(bytes).subspan(i, std::min(each, bytes.size() - i)));
    pieces.emplace_back();  // what has no bytes
  }
  return pieces;
}

class PackedValues : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_lz4()) GTEST_SKIP() << "this build has no LZ4";
  }
};

TEST_F(PackedValues, AreTheSameAgainHoweverTheyLie) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, kPackedBlock - 1, kPackedBlock,
                                 kPackedBlock + 1, 3 * kPackedBlock, 5 * kPackedBlock + 77}) {
    const Bytes bytes = made(size, 4);
    for (const std::size_t each : {std::size_t{1000}, std::size_t{300'000}, size}) {
      const auto packed = pack(cut(bytes, each));
      if (size == 1) continue;
      ASSERT_TRUE(packed) << size;
      EXPECT_LT(packed->bytes.size(), size / 2);
      EXPECT_EQ(packed->sizes.size(), (size + kPackedBlock - 1) / kPackedBlock);
      EXPECT_EQ(unpack(packed->bytes, packed->sizes, size), bytes) << size << " by " << each;
    }
  }
}

TEST_F(PackedValues, AreSentAsTheyAreWhereThatWouldSaveLittle) {
  EXPECT_FALSE(pack(cut(made(3 * kPackedBlock, 256), 5000)));
  // Blocks that become no smaller stand beside others that do.
  Bytes mixed = made(2 * kPackedBlock, 256);
  const Bytes more = made(2 * kPackedBlock, 3);
  mixed.insert(mixed.end(), more.begin(), more.end());
  const auto packed = pack({std::span<const std::byte>(mixed)});
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->sizes[0], kPackedBlock);
  EXPECT_LT(packed->sizes[3], kPackedBlock / 2);
  EXPECT_EQ(unpack(packed->bytes, packed->sizes, mixed.size()), mixed);
}

TEST_F(PackedValues, MalformedBlocks) {
  const Bytes bytes = made(kPackedBlock + 100, 4);
  const Packed good = *pack({std::span<const std::byte>(bytes)});
  const struct {
    const char* name;
    std::vector<std::uint64_t> sizes;
    std::uint64_t bytes;
  } cases[] = {
      {"no blocks", {}, bytes.size()},
      {"too few blocks", {good.sizes[0]}, bytes.size()},
      {"too many blocks", {good.sizes[0], good.sizes[1], 1}, bytes.size()},
      {"an empty block", {good.sizes[0] + good.sizes[1], 0}, bytes.size()},
      {"a block that is longer than it was", {good.sizes[0], 101}, bytes.size()},
      {"sizes that wrap around", {UINT64_MAX, good.bytes.size() + 1}, bytes.size()},
      {"bytes behind the last block", {good.sizes[0], good.sizes[1] - 1}, bytes.size()},
      {"more than LZ4 can make of it", {good.sizes[0], good.sizes[1]}, std::uint64_t{1} << 25},
      {"more than a message may have", {good.sizes[0], good.sizes[1]}, UINT64_MAX},
      {"fewer bytes than there are", {good.sizes[0], good.sizes[1]}, bytes.size() - 1},
      {"more bytes than there are", {good.sizes[0], good.sizes[1]}, bytes.size() + 1},
  };
  for (const auto& one : cases) {
    try {
      (void)unpack(good.bytes, one.sizes, one.bytes);
      ADD_FAILURE() << one.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::data_loss) << one.name;
      EXPECT_THAT(error.what(), testing::HasSubstr("compressed")) << one.name;
    }
  }
}

TEST_F(PackedValues, DamagedBlocks) {
  const Bytes bytes = made(20'000, 5);
  const Packed good = *pack({std::span<const std::byte>(bytes)});
  int errors = 0, other = 0;
  for (std::size_t at = 0; at < good.bytes.size(); ++at) {
    Packed damaged = good;
    damaged.bytes[at] ^= std::byte{static_cast<unsigned char>(1U << (at % 8))};
    try {
      const Bytes values = unpack(damaged.bytes, damaged.sizes, bytes.size());
      ASSERT_EQ(values.size(), bytes.size());
      other += values != bytes ? 1 : 0;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::data_loss);
      ++errors;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(other, 0) << "for the checksum to find";
}

}  // namespace
}  // namespace penstock::remote
