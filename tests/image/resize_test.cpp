#include "pipeline/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/images.h"
#include "tests/support/places.h"
#include "tests/support/simd.h"

namespace penstock::image {
namespace {

using test::make_pixels;
using test::Pixels;

Axis axis_of(int in, int out) {
  return {in, 0, static_cast<double>(in), out, 0, out, false};
}

/// The same formula as in tests/golden/resize_pillow.py.
Pixels made_up(int height, int width, int channels) {
  Pixels image{height, width, channels, {}};
  const std::uint64_t count = std::uint64_t{1} * height * width * channels;
  for (std::uint64_t index = 0; index < count; ++index) {
    const std::uint64_t x = index / channels % width;
    const std::uint64_t y = index / channels / width;
    const std::uint64_t c = index % channels;
    const std::uint64_t noise = (index * 2654435761ULL % 4294967296ULL) >> 26;
    const std::uint64_t wave = (x * 7 + y * 5 + c * 40) % 256;
    const std::uint64_t step = (x / 3 + y / 4 + c) % 2 * 128;
    image.values.push_back(static_cast<std::uint8_t>(((wave + noise) / 2 + step) % 256));
  }
  return image;
}

Pixels resized(Resizer& resizer, const Pixels& image, const Axis& rows, const Axis& columns) {
  resizer.begin(rows, columns, image.channels);
  Pixels out{rows.count, columns.count, image.channels, {}};
  const Filter& y = resizer.rows();
  const Filter& x = resizer.columns();
  const auto used = static_cast<std::size_t>((x.span_end() - x.span_begin()) * image.channels);
  // What lies behind a row must not matter: it differs from row to row.
  std::vector<std::uint8_t> row(used + kRowPadding);
  for (int source = y.span_begin(); source < y.span_end(); ++source) {
    std::fill(row.begin(), row.end(), static_cast<std::uint8_t>(source * 37));
    std::memcpy(row.data(), image.at(source, x.span_begin()), used);
    resizer.push(row.data());
    for (PlanarRow got = resizer.pop(); got.values != nullptr; got = resizer.pop()) {
      for (int i = 0; i < columns.count; ++i) {
        for (int c = 0; c < image.channels; ++c) out.values.push_back(got.plane(c)[i]);
      }
    }
  }
  return out;
}

Pixels resized(const Pixels& image, int height, int width) {
  Resizer resizer;
  return resized(resizer, image, axis_of(image.height, height), axis_of(image.width, width));
}

TEST(Resize, AtMostOneLevelOffPillow) {
  std::ifstream golden(test::source_dir() + "/tests/golden/resize_pillow.txt");
  ASSERT_TRUE(golden.is_open());
  std::string line;
  std::getline(golden, line);  // the comment
  double total = 0;
  std::size_t values = 0;
  int cases = 0;
  while (std::getline(golden, line)) {
    std::istringstream numbers(line);
    int height = 0, width = 0, channels = 0, out_height = 0, out_width = 0;
    double left = 0, top = 0, right = 0, bottom = 0;
    numbers >> height >> width >> channels >> left >> top >> right >> bottom >> out_height >>
        out_width;
    ASSERT_FALSE(numbers.fail()) << line;
    const std::string what = line;
    std::getline(golden, line);
    const Axis rows{height, top, bottom, out_height, 0, out_height, false};
    const Axis columns{width, left, right, out_width, 0, out_width, false};
    Resizer resizer;
    const Pixels got = resized(resizer, made_up(height, width, channels), rows, columns);
    ASSERT_EQ(got.values.size() * 2, line.size()) << what;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      const int expected = std::stoi(line.substr(2 * i, 2), nullptr, 16);
      const int off = std::abs(expected - got.values[i]);
      ASSERT_LE(off, 1) << what << ", value " << i;
      total += off;
    }
    values += got.values.size();
    ++cases;
  }
  EXPECT_EQ(cases, 21);
  RecordProperty("mean_off_pillow", std::to_string(total / static_cast<double>(values)));
  EXPECT_LE(total / static_cast<double>(values), 0.05);
}

TEST(Resize, EveryTarget) {
  struct Case {
    int height, width, out_height, out_width;
  };
  for (const int channels : {1, 3}) {
    for (const Case& c :
         {Case{60, 80, 31, 40}, Case{30, 20, 47, 61}, Case{64, 200, 17, 16}, Case{100, 999, 9, 13},
          Case{7, 5, 33, 129}, Case{50, 70, 50, 70}, Case{1, 1, 3, 3}, Case{2000, 40, 3, 224},
          Case{130, 70, 2, 20}, Case{128, 70, 2, 20}}) {
      const Pixels image = make_pixels(c.height, c.width, channels, 5);
      std::vector<std::pair<std::string, Pixels>> results;
      test::for_each_target([&](const std::string& name) {
        results.emplace_back(name, resized(image, c.out_height, c.out_width));
      });
      ASSERT_GE(results.size(), 2U);
      EXPECT_EQ(results.back().first, "SCALAR");
      for (const auto& [name, result] : results) {
        EXPECT_EQ(result.values, results.back().second.values)
            << name << " " << c.width << "x" << c.height << " to " << c.out_width << "x"
            << c.out_height << " of " << channels;
      }
    }
  }
}

TEST(Resize, ReuseOfAResizer) {
  const Pixels large = make_pixels(90, 120, 3, 1);
  const Pixels small = make_pixels(20, 31, 1, 2);
  Resizer resizer;
  test::for_each_target([&](const std::string& name) {
    for (int i = 0; i < 3; ++i) {
      const Pixels first = resized(resizer, large, axis_of(90, 40), axis_of(120, 33));
      EXPECT_EQ(first.values, resized(large, 40, 33).values) << name;
      const Pixels second = resized(resizer, small, axis_of(20, 50), axis_of(31, 70));
      EXPECT_EQ(second.values, resized(small, 50, 70).values) << name;
    }
  });
}

TEST(Resize, Windows) {
  const Pixels image = make_pixels(70, 90, 3);
  const Pixels whole = resized(image, 40, 64);
  Axis rows = axis_of(70, 40);
  rows.first = 11;
  rows.count = 17;
  Axis columns = axis_of(90, 64);
  columns.first = 20;
  columns.count = 33;
  Resizer resizer;
  const Pixels part = resized(resizer, image, rows, columns);
  EXPECT_GT(resizer.rows().span_begin(), 0);
  EXPECT_LT(resizer.columns().span_end(), 90);
  for (int y = 0; y < rows.count; ++y) {
    for (int x = 0; x < columns.count; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(part.at(y, x)[c], whole.at(y + 11, x + 20)[c]) << y << " " << x;
      }
    }
  }
}

TEST(Resize, MirroredImage) {
  const Pixels image = make_pixels(50, 61, 3);
  const Pixels plain = resized(image, 20, 43);
  Axis columns = axis_of(61, 43);
  columns.mirrored = true;
  Resizer resizer;
  const Pixels mirrored = resized(resizer, image, axis_of(50, 20), columns);
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 43; ++x) {
      for (int c = 0; c < 3; ++c) ASSERT_EQ(mirrored.at(y, x)[c], plain.at(y, 42 - x)[c]);
    }
  }
}

TEST(Resize, KeepsEveryConstant) {
  for (int value = 0; value < 256; value += 5) {
    const Pixels image{300, 41, 1,
                       std::vector<std::uint8_t>(300 * 41, static_cast<std::uint8_t>(value))};
    for (const int out : {1, 7, 100, 299}) {
      const Pixels result = resized(image, out, out);
      EXPECT_EQ(std::count(result.values.begin(), result.values.end(), value), out * out)
          << value << " to " << out;
    }
  }
}

// Errors of many products, all of one sign, must not add up.
TEST(Resize, KeepsEveryConstantAtEveryScale) {
  for (const int height : {100, 126, 128, 130, 256, 1000, 8000, 65500}) {
    for (int value = 0; value < 256; ++value) {
      const Pixels image{height, 1, 1,
                         std::vector<std::uint8_t>(static_cast<std::size_t>(height),
                                                   static_cast<std::uint8_t>(value))};
      const Pixels result = resized(image, 2, 1);
      ASSERT_EQ(std::count(result.values.begin(), result.values.end(), value), 2)
          << value << " of " << height;
    }
  }
}

TEST(Resize, ManyTaps) {
  // 1,000 taps each way; the exact mean of each output's triangle by floating point.
  const Pixels image = made_up(3000, 3000, 1);
  const Pixels got = resized(image, 6, 6);
  const double scale = 500;
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 6; ++x) {
      double sum = 0, weights = 0;
      for (int v = 0; v < 3000; v += 1) {
        const double wv = std::max(1 - std::abs(v + 0.5 - (y + 0.5) * scale) / scale, 0.0);
        if (wv == 0) continue;
        for (int u = 0; u < 3000; ++u) {
          const double w = wv * std::max(1 - std::abs(u + 0.5 - (x + 0.5) * scale) / scale, 0.0);
          sum += w * *image.at(v, u);
          weights += w;
        }
      }
      EXPECT_NEAR(*got.at(y, x), sum / weights, 1.0);
    }
  }
}

TEST(Filter, Weights) {
  for (const int in : {1, 2, 3, 10, 97, 1000}) {
    for (const int out : {1, 2, 5, 96, 97, 98, 224}) {
      for (const double shift : {0.0, 0.125, 0.875}) {
        for (const auto precision : {Precision::exact, Precision::q15}) {
          Filter filter;
          const double begin = in > 2 ? shift : 0;
          filter.build({in, begin, in - begin / 2, out, 0, out, false}, precision);
          for (int i = 0; i < out; ++i) {
            int sum = 0;
            for (const int weight : filter.weights(i)) {
              ASSERT_GE(weight, 0);
              sum += weight;
            }
            const int one = 1 << filter.bits();
            ASSERT_GE(sum, one - (precision == Precision::q15 ? 1 : 0));
            ASSERT_LE(sum, one);
            ASSERT_GE(filter.first(i), filter.span_begin());
            ASSERT_LE(filter.first(i) + filter.taps(), filter.span_end());
          }
          ASSERT_GE(filter.span_begin(), 0);
          ASSERT_LE(filter.span_end(), in);
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::image
