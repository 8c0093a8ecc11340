#include "pipeline/image/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/codec/exif.h"
#include "pipeline/image/geometry.h"
#include "pipeline/image/orient.h"
#include "tests/support/errors.h"

namespace penstock::image {
namespace {

TEST(RandomResizedCrop, DistributionOfSharesAndRatios) {
  // On a very large square nearly every draw fits, so that the crops show the drawn distributions:
  // the area uniform in [0.08, 1], the logarithm of the ratio uniform, both cut where sides exceed.
  constexpr int kSide = 20'000;
  constexpr int kDraws = 20'000;
  const RandomResizedCropOptions options;
  double sum = 0;
  std::vector<double> ratios;
  int wide = 0;
  for (int i = 0; i < kDraws; ++i) {
    Rng rng(1, static_cast<std::uint64_t>(i), 0);
    const Rect crop = choose_random_resized_crop({kSide, kSide}, {0.08, 0.5, 0.75, 4.0 / 3}, rng);
    const double share = 1.0 * crop.width * crop.height / kSide / kSide;
    ASSERT_GE(share, 0.0799);
    ASSERT_LE(share, 0.5001);
    sum += share;
    ratios.push_back(std::log(1.0 * crop.width / crop.height));
    wide += crop.width > crop.height ? 1 : 0;
    ASSERT_GE(crop.left, 0);
    ASSERT_GE(crop.top, 0);
    ASSERT_LE(crop.left + crop.width, kSide);
    ASSERT_LE(crop.top + crop.height, kSide);
  }
  // Mean 0.29, deviation 0.42 / sqrt(12) = 0.121: four standard errors are 0.0034.
  EXPECT_NEAR(sum / kDraws, 0.29, 0.0034);
  EXPECT_NEAR(1.0 * wide / kDraws, 0.5, 0.0142);
  std::sort(ratios.begin(), ratios.end());
  const double low = std::log(options.min_ratio), high = std::log(options.max_ratio);
  double distance = 0;  // Kolmogorov-Smirnov
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const double expected = (ratios[i] - low) / (high - low);
    distance = std::max(distance, std::abs(expected - static_cast<double>(i) / kDraws));
  }
  EXPECT_LT(distance, 1.63 / std::sqrt(kDraws));  // the 1 % level
}

TEST(RandomResizedCrop, UniformPositions) {
  std::array<int, 5> counts{};
  constexpr int kDraws = 10'000;
  for (int i = 0; i < kDraws; ++i) {
    Rng rng(3, static_cast<std::uint64_t>(i), 0);
    // Of 6 x 6 pixels always 2 x 2: five places along each axis.
    const Rect crop = choose_random_resized_crop({6, 6}, {4.0 / 36, 4.0 / 36, 1, 1}, rng);
    ASSERT_EQ(crop.width, 2);
    ASSERT_EQ(crop.height, 2);
    ++counts[static_cast<std::size_t>(crop.left)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 5, 4 * std::sqrt(kDraws * 0.16));
}

TEST(RandomResizedCrop, FallsBackToTheCentre) {
  struct Case {
    Size size;
    Rect expected;
  };
  // Nothing of these fits in ten tries, because the whole area at a ratio in [3/4, 4/3] is too wide
  // or too high for them.
  for (const Case& c : {Case{{10, 100}, {0, 43, 10, 13}}, Case{{100, 10}, {43, 0, 13, 10}},
                        Case{{1, 50}, {0, 24, 1, 1}}, Case{{3, 1000}, {0, 498, 3, 4}}}) {
    Rng rng(1, 2, 3);
    EXPECT_EQ(choose_random_resized_crop(c.size, {1, 1, 0.75, 4.0 / 3}, rng), c.expected);
  }
}

TEST(RandomResizedCrop, TheSmallestImages) {
  for (int height = 1; height < 4; ++height) {
    for (int width = 1; width < 4; ++width) {
      for (std::uint64_t i = 0; i < 200; ++i) {
        Rng rng(1, i, 0);
        const Rect crop = choose_random_resized_crop({height, width}, {}, rng);
        ASSERT_GE(crop.width, 1);
        ASSERT_GE(crop.height, 1);
        ASSERT_LE(crop.left + crop.width, width);
        ASSERT_LE(crop.top + crop.height, height);
      }
    }
  }
}

TEST(CenterCrop, RoundsAndPadsAsTorchvision) {
  EXPECT_EQ(choose_center_crop({10, 10}, {4, 4}), (Rect{3, 3, 4, 4}));
  EXPECT_EQ(choose_center_crop({11, 13}, {4, 4}), (Rect{4, 4, 4, 4}));  // 3.5 and 4.5: to even
  EXPECT_EQ(choose_center_crop({10, 10}, {10, 10}), (Rect{0, 0, 10, 10}));
  EXPECT_EQ(choose_center_crop({3, 4}, {6, 9}), (Rect{-1, -2, 6, 9}));
}

TEST(RandomPadCrop, ReachesEveryPlaceAndNoOther) {
  std::map<std::pair<int, int>, int> places;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Rng rng(1, i, 0);
    const Rect crop = choose_random_pad_crop({32, 32}, {32, 32}, 2, rng);
    ++places[{crop.top, crop.left}];
  }
  EXPECT_EQ(places.size(), 25U);
  EXPECT_EQ(places.begin()->first, std::make_pair(-2, -2));
  EXPECT_EQ(places.rbegin()->first, std::make_pair(2, 2));
  test::expect_error(ErrorCode::out_of_range, "40 x 40", [] {
    Rng rng(1, 1, 1);
    choose_random_pad_crop({32, 32}, {40, 40}, 3, rng);
  });
}

TEST(ShortSide, TruncatesTheLongSide) {
  EXPECT_EQ(short_side_size({375, 500}, 256), (Size{256, 341}));
  EXPECT_EQ(short_side_size({500, 375}, 256), (Size{341, 256}));
  EXPECT_EQ(short_side_size({100, 100}, 7), (Size{7, 7}));
  EXPECT_EQ(short_side_size({1, 65'000}, 65'000), (Size{65'000, 2'147'483'647}));
}

TEST(ColorJitter, OrdersAndFactors) {
  std::map<std::vector<int>, int> orders;
  double brightness = 0;
  for (std::uint64_t i = 0; i < 4800; ++i) {
    Rng rng(1, i, 0);
    const Adjustments chosen = choose_adjustments({0.4, 1.5, 0.3, 0.1}, rng);
    std::vector<int> order;
    for (const Adjustment& adjustment : chosen.all()) {
      order.push_back(static_cast<int>(adjustment.kind));
      switch (adjustment.kind) {
        case Adjustment::Kind::brightness:
          ASSERT_GE(adjustment.factor, 0.6F);
          ASSERT_LE(adjustment.factor, 1.4F);
          brightness += adjustment.factor;
          break;
        case Adjustment::Kind::contrast:
          ASSERT_GE(adjustment.factor, 0.0F);
          ASSERT_LE(adjustment.factor, 2.5F);
          break;
        case Adjustment::Kind::saturation:
          ASSERT_NEAR(adjustment.factor, 1, 0.3001);
          break;
        case Adjustment::Kind::hue:
          ASSERT_NEAR(adjustment.factor, 0, 0.1001);
          break;
      }
    }
    ASSERT_EQ(order.size(), 4U);
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 200, 4 * std::sqrt(200.0));
  EXPECT_NEAR(brightness / 4800, 1, 4 * 0.8 / std::sqrt(12 * 4800.0));
  Rng rng(1, 1, 1);
  EXPECT_EQ(choose_adjustments({0, 0, 0.5, 0}, rng).count, 1U);
  EXPECT_EQ(choose_adjustments({}, rng).count, 0U);
}

// What a chain of steps does to a numbered image, pixel by pixel.
struct Plain {
  Size size;
  std::vector<int> values;  // -1 is black

  explicit Plain(Size of) : size(of), values(static_cast<std::size_t>(of.height * of.width)) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  }
  int at(int y, int x) const {
    if (y < 0 || x < 0 || y >= size.height || x >= size.width) return -1;
    return values[static_cast<std::size_t>(y * size.width + x)];
  }
  void crop(const Rect& part) {
    Plain out(Size{part.height, part.width});
    for (int y = 0; y < part.height; ++y) {
      for (int x = 0; x < part.width; ++x) {
        out.values[static_cast<std::size_t>(y * part.width + x)] = at(part.top + y, part.left + x);
      }
    }
    *this = out;
  }
  void mirror() {
    for (int y = 0; y < size.height; ++y) {
      const auto row = values.begin() + y * size.width;
      std::reverse(row, row + size.width);
    }
  }
};

/// The canvas that a geometry without a resize stands for.
Plain carried_out(const Geometry& geometry, Size source) {
  const Plain from(source);
  Plain out(geometry.canvas);
  std::fill(out.values.begin(), out.values.end(), -1);
  for (int y = 0; y < geometry.window.height; ++y) {
    for (int x = 0; x < geometry.window.width; ++x) {
      const int column = geometry.mirrored ? geometry.window.width - 1 - x : x;
      const int at = (geometry.top + y) * geometry.canvas.width + geometry.left + x;
      out.values[static_cast<std::size_t>(at)] =
          from.at(geometry.window.top + y, geometry.window.left + column);
    }
  }
  return out;
}

TEST(Geometry, ComposesCropsPaddingAndFlips) {
  Rng rng(11, 0, 0);
  for (int round = 0; round < 3000; ++round) {
    const Size source{1 + static_cast<int>(rng.below(9)), 1 + static_cast<int>(rng.below(9))};
    Geometry geometry(source);
    Plain plain(source);
    for (std::uint64_t step = rng.below(5); step > 0; --step) {
      if (rng.coin(0.3)) {
        geometry.mirror();
        plain.mirror();
      } else {
        const Rect part{static_cast<int>(rng.below(9)) - 4, static_cast<int>(rng.below(9)) - 4,
                        1 + static_cast<int>(rng.below(8)), 1 + static_cast<int>(rng.below(8))};
        geometry.crop(part);
        plain.crop(part);
      }
    }
    const Plain got = carried_out(geometry, source);
    ASSERT_EQ(got.size, plain.size);
    ASSERT_EQ(got.values, plain.values) << "round " << round;
  }
}

TEST(Geometry, ResizesOnce) {
  Geometry geometry({100, 200});
  geometry.crop({10, 20, 50, 60});
  EXPECT_TRUE(geometry.resizable());
  geometry.resize({25, 30});
  geometry.crop({5, 6, 10, 11});
  EXPECT_FALSE(geometry.resizable());
  EXPECT_EQ(geometry.source_crop, (Rect{10, 20, 50, 60}));
  EXPECT_EQ(geometry.target, (Size{25, 30}));
  EXPECT_EQ(geometry.window, (Rect{5, 6, 10, 11}));
  EXPECT_EQ(geometry.size(), (Size{10, 11}));

  Geometry padded({10, 10});
  padded.crop({-1, -1, 12, 12});
  EXPECT_FALSE(padded.resizable());
  Geometry same({10, 10});
  same.resize({10, 10});
  EXPECT_TRUE(same.resizable());
}

TEST(Turn, EveryOrientation) {
  // Of a stored image  0 1 2 / 3 4 5: how it is seen.
  const std::vector<std::uint8_t> stored = {0, 1, 2, 3, 4, 5};
  const std::map<int, std::vector<std::uint8_t>> expected = {
      {1, {0, 1, 2, 3, 4, 5}}, {2, {2, 1, 0, 5, 4, 3}}, {3, {5, 4, 3, 2, 1, 0}},
      {4, {3, 4, 5, 0, 1, 2}}, {5, {0, 3, 1, 4, 2, 5}}, {6, {3, 0, 4, 1, 5, 2}},
      {7, {5, 2, 4, 1, 3, 0}}, {8, {2, 5, 1, 4, 0, 3}}};
  for (const auto& [orientation, seen] : expected) {
    const Turn turn(orientation);
    std::vector<std::uint8_t> out(6);
    turn_plane(stored.data(), {2, 3}, turn, out.data());
    EXPECT_EQ(out, seen) << orientation;
    // A single pixel's place maps back to where it is stored.
    const Size size = turn.apply({2, 3});
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        const Rect at = turn.stored({y, x, 1, 1}, size);
        EXPECT_EQ(stored[static_cast<std::size_t>(at.top * 3 + at.left)],
                  seen[static_cast<std::size_t>(y * size.width + x)]);
      }
    }
  }
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Exif, ReadsBothByteOrdersAndSurvivesDamage) {
  const std::vector<std::byte> little =
      bytes_of({'I', 'I', 42, 0, 8, 0,    0, 0, 2, 0, 0x10, 1, 2, 0, 1, 0, 0,
                0,   0,   0,  0, 0, 0x12, 1, 3, 0, 1, 0,    0, 0, 6, 0, 0, 0});
  const std::vector<std::byte> big =
      bytes_of({'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0});
  EXPECT_EQ(exif_orientation(little), 6);
  EXPECT_EQ(exif_orientation(big), 8);
  for (std::size_t size = 0; size < little.size(); ++size) {
    EXPECT_EQ(exif_orientation(std::span(little).first(size)), 1) << size;
  }
  for (std::size_t i = 0; i < big.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> damaged = big;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      const int orientation = exif_orientation(damaged);
      EXPECT_TRUE(orientation >= 1 && orientation <= 8);
    }
  }
  EXPECT_EQ(exif_orientation({}), 1);
}

}  // namespace
}  // namespace penstock::image
