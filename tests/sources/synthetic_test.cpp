#include "pipeline/sources/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>

#include "pipeline/sources/synthetic_jpeg.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/images.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::expect_error;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using ::testing::HasSubstr;

using Kind = Distribution::Kind;

TEST(Synthetic, RecordsByOptionsAndIndex) {
  SyntheticOptions options;
  options.count = 50;
  options.bytes = {Kind::lognormal, 1000, 0.5};
  options.seed = 3;
  const SourcePtr source = make_synthetic_source(options);
  const std::vector<ReadOutcome> all = read_source(*source);
  ASSERT_EQ(all.size(), 50U);
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(all[i].text().size(), source->record_bytes(i));
    EXPECT_EQ(all[i].values[1], std::to_string(i));
    distinct.insert(all[i].text());
  }
  EXPECT_EQ(distinct.size(), 50U);
  const auto again = read_indices(*make_synthetic_source(options), {49, 7});
  EXPECT_EQ(again[0].text(), all[49].text());
  EXPECT_EQ(again[1].text(), all[7].text());
  options.seed = 4;
  EXPECT_NE(read_indices(*make_synthetic_source(options), {7})[0].text(), all[7].text());
}

TEST(Synthetic, SizesAcrossTheNoise) {
  for (const std::uint64_t bytes : {0, 1, 1 << 20, (1 << 20) + 1, 5 << 20}) {
    SyntheticOptions options;
    options.bytes.a = static_cast<double>(bytes);
    EXPECT_EQ(read_indices(*make_synthetic_source(options), {9})[0].text().size(), bytes);
  }
}

TEST(Synthetic, Distributions) {
  struct Case {
    Distribution distribution;
    double mean, low, high;
  };
  const Case cases[] = {{{Kind::constant, 5, 0}, 5, 5, 5},
                        {{Kind::uniform, 10, 20}, 15, 10, 20},
                        {{Kind::lognormal, 100, 0.5}, 100 * std::exp(0.125), 0, 1e6},
                        {{Kind::pareto, 10, 3}, 15, 10, 1e9},
                        {{Kind::pareto, 10, 3, 12}, 11.2, 10, 12}};
  for (const Case& c : cases) {
    double sum = 0;
    constexpr int kDraws = 20'000;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      const double value = draw(c.distribution, Rng(1, i, 0));
      ASSERT_GE(value, c.low);
      ASSERT_LE(value, c.high);
      sum += value;
    }
    EXPECT_NEAR(sum / kDraws, c.mean, 0.03 * c.mean) << to_text(c.distribution);
  }
}

TEST(Synthetic, Faults) {
  SyntheticOptions options;
  options.count = 2000;
  options.fault_share = 0.1;
  const std::vector<ReadOutcome> outcomes = read_source(*make_synthetic_source(options));
  const auto failed = std::count_if(outcomes.begin(), outcomes.end(),
                                    [](const ReadOutcome& o) { return o.error.has_value(); });
  EXPECT_NEAR(static_cast<double>(failed), 200, 60);
  options.fault_share = 1;
  EXPECT_EQ(read_indices(*make_synthetic_source(options), {0})[0].error->code(),
            ErrorCode::unavailable);
}

TEST(Synthetic, TimeOfReads) {
  SyntheticOptions options;
  EXPECT_FALSE(make_synthetic_source(options)->blocking());
  options.read_us.a = 3000;
  const SourcePtr source = make_synthetic_source(options);
  EXPECT_TRUE(source->blocking());
  const auto start = std::chrono::steady_clock::now();
  read_indices(*source, {0, 1});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(6));
}

TEST(Synthetic, Cost) {
  SyntheticOptions options;
  EXPECT_EQ(make_synthetic_cost_op(options), nullptr);
  options.cost_us.a = 2000;
  const WorkOpPtr op = make_synthetic_cost_op(options);
  EXPECT_FALSE(op->can_fail());
  std::vector<WorkItem> items(2);
  items[0].element = {{"x", Tensor::scalar(1)}};
  items[1].keep = false;
  test::HeapContext context;
  const auto start = std::chrono::steady_clock::now();
  op->run(items, context);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
  EXPECT_EQ(items[0].element["x"].item<int>(), 1);
}

TEST(Synthetic, DecodedImages) {
  SyntheticOptions options;
  options.count = 200;
  options.image_height = 48;
  options.image_width = 65;
  const SourcePtr source = make_synthetic_source(options);
  EXPECT_EQ(source->spec().to_string(), "{image: bytes [], label: i64 [], key: bytes []}");
  const std::vector<ReadOutcome> all = read_source(*source);
  std::set<std::string> images;
  std::set<std::string> keys;
  for (const ReadOutcome& outcome : all) {
    ASSERT_FALSE(outcome.error);
    images.insert(outcome.values[0]);
    keys.insert(outcome.values[2]);
    EXPECT_LT(std::stoi(outcome.values[1]), 1000);
  }
  EXPECT_EQ(images.size(), 200U);
  EXPECT_EQ(keys.size(), 200U);
  EXPECT_EQ(all[199].values[2], "00000199");
  EXPECT_EQ(read_source(*make_synthetic_source(options))[5].values, all[5].values);
  const test::Pixels pixels = test::decode_jpeg_plainly(test::as_bytes(all[70].values[0]));
  EXPECT_EQ(pixels.height, 48);
  EXPECT_EQ(pixels.width, 65);
}

TEST(Synthetic, JpegsOfAnySize) {
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 300}, {17, 3}, {224, 224}}) {
    const std::string jpeg = make_synthetic_jpeg(height, width, 1);
    const test::Pixels pixels = test::decode_jpeg_plainly(test::as_bytes(jpeg));
    EXPECT_EQ(pixels.height, height);
    EXPECT_EQ(pixels.width, width);
    EXPECT_EQ(jpeg, make_synthetic_jpeg(height, width, 1));
    EXPECT_NE(jpeg, make_synthetic_jpeg(height, width, 2));
  }
  // Costs to decode what photographs cost: about as many bits for a pixel.
  const double bits = 8.0 * static_cast<double>(make_synthetic_jpeg(375, 500, 1).size());
  EXPECT_GT(bits / (375 * 500), 2);
  EXPECT_LT(bits / (375 * 500), 8);
}

TEST(Synthetic, Parse) {
  const SyntheticOptions options = parse_synthetic(
      "count=7,bytes=lognormal:110000:0.5:1e6,read_us=uniform:1:2,cost_us=50,faults=0.25,seed=9");
  EXPECT_EQ(options.count, 7U);
  EXPECT_EQ(to_text(options.bytes), "lognormal:110000:0.5:1e+06");
  EXPECT_EQ(to_text(options.read_us), "uniform:1:2");
  EXPECT_EQ(to_text(options.cost_us), "50");
  EXPECT_EQ(options.fault_share, 0.25);
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(parse_synthetic("image=3x4").image_width, 4);
  EXPECT_EQ(parse_synthetic("").count, SyntheticOptions().count);
  EXPECT_EQ(to_text(parse_synthetic("bytes=pareto:5:2").bytes), "pareto:5:2");
}

TEST(Synthetic, InvalidOptions) {
  for (const char* text : {"cuont=1",
                           "count=",
                           "count=-1",
                           "count=1.5",
                           "count",
                           "bytes=uniform:1",
                           "bytes=gauss:1:2",
                           "bytes=uniform:1:2:3",
                           "bytes=uniform:a:b",
                           "bytes=uniform:3:2",
                           "bytes=-1",
                           "bytes=inf",
                           "bytes=pareto:1:0",
                           "faults=2",
                           "faults=-1",
                           "faults=nan",
                           "image=3",
                           "image=3x",
                           "image=0x4",
                           "image=-1x4",
                           "image=70000x4",
                           "seed=x",
                           "count=1,,seed=2",
                           ","}) {
    expect_error(ErrorCode::invalid_argument, "synthetic: '", [&] { parse_synthetic(text); });
  }
}

}  // namespace
}  // namespace penstock
