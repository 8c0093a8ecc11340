#include <penstock/rng.h>

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers that the authors ship with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t kAll = 0xffffffff;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kAll, kAll, kAll, kAll}, {kAll, kAll}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Fixed for ever: a change here changes every random batch of every user.
TEST(Rng, IsPhiloxOfOrdinalOpAndKey) {
  const std::uint64_t key = 0x0123456789abcdef;
  const std::uint64_t ordinal = 0xfedcba9876543210;
  Rng rng(key, ordinal, 7);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const Block bits = philox4x32({0x76543210, 0xfedcba98, 7, block}, {0x89abcdef, 0x01234567});
    for (const std::uint32_t expected : bits) EXPECT_EQ(rng.next_u32(), expected);
  }
  Rng wide(key, ordinal, 7);
  Rng narrow(key, ordinal, 7);
  const std::uint64_t low = narrow.next_u32();
  EXPECT_EQ(wide.next_u64(), low | std::uint64_t{narrow.next_u32()} << 32);
}

TEST(Rng, DistinctKeys) {
  std::set<std::uint64_t> first;
  for (std::uint64_t key = 0; key < 10; ++key) {
    for (std::uint64_t ordinal = 0; ordinal < 10; ++ordinal) {
      for (std::uint32_t op = 0; op < 10; ++op) first.insert(Rng(key, ordinal, op).next_u64());
    }
  }
  EXPECT_EQ(first.size(), 1000U);
}

TEST(Rng, BijectiveMixing) {
  std::set<std::uint64_t> mixed;
  std::set<std::uint64_t> paths;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    mixed.insert(mix64(i));
    paths.insert(mix_path(i / 100, i % 100));
  }
  EXPECT_EQ(mixed.size(), 10'000U);
  EXPECT_EQ(paths.size(), 10'000U);
  EXPECT_NE(epoch_key(0, 0), epoch_key(0, 1));
  EXPECT_NE(epoch_key(0, 1), epoch_key(1, 0));
  // First output of SplitMix64 from state 0.
  EXPECT_EQ(mix_path(0, 0), 0xe220a8397b1dcdafULL);
}

TEST(Rng, UniformMoments) {
  Rng rng(1, 2, 3);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

TEST(Rng, NormalMoments) {
  Rng rng(4, 5, 6);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
  EXPECT_NEAR(fourth / kDraws, 3, 0.2);
}

TEST(Rng, RangeOfBelow) {
  Rng rng(7, 8, 9);
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts[rng.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.below(1), 0U);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.below((1ULL << 63) + 1), (1ULL << 63) + 1);
}

TEST(Rng, Coin) {
  Rng rng(1, 1, 1);
  int heads = 0;
  for (int i = 0; i < 10'000; ++i) heads += rng.coin(0.25) ? 1 : 0;
  EXPECT_NEAR(heads, 2500, 200);
  EXPECT_FALSE(rng.coin(0));
  EXPECT_TRUE(rng.coin(1));
}

}  // namespace
}  // namespace penstock
