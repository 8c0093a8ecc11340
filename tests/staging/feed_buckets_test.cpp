// Feeds whose towers get batches of one bucket at each step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <penstock/feed.h>
#include <penstock/penstock.h>
#include <penstock/rng.h>

#include "tests/staging/take.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace feed_buckets_test {

using test::some_devices;

constexpr int kTowers = 8;
constexpr int kRows = 4;

/// The length of text `number`: log-normal.
std::int64_t length_of_text(std::int64_t number) {
  Rng rng(11, static_cast<std::uint64_t>(number), 1);
  const double normal =
      std::sqrt(-2 * std::log(1 - rng.uniform())) * std::cos(6.283185307179586 * rng.uniform());
  return std::clamp<std::int64_t>(std::llround(40 * std::exp(0.8 * normal)), 1, 400);
}

Dataset texts(std::int64_t count, int towers) {
  const auto text = [](const Element& element) {
    const std::int64_t number = element["value"].item<std::int64_t>();
    const std::vector<std::int64_t> values(static_cast<std::size_t>(length_of_text(number)),
                                           number);
    return Element(
        {{"text", Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values)}});
  };
  BucketOptions options;
  for (double bound = 4; bound < 401; bound *= 1.05) {
    const auto next = static_cast<std::int64_t>(bound);
    if (options.bounds.empty() || next > options.bounds.back()) options.bounds.push_back(next);
  }
  options.sizes.assign(options.bounds.size() + 1, kRows);
  options.towers = towers;
  return range(count)
      .map(text, {.output = Spec({{"text", DType::i64, {Shape::kUnknown}}})})
      .bucket_by_length(options);
}

struct Step {
  std::vector<std::int64_t> widths;   // of each tower's batch
  std::vector<std::int64_t> numbers;  // of all their texts
};

/// Takes steps in which every tower gets a batch.
std::vector<Step> steps_of(Feed& feed) {
  std::vector<Step> steps;
  std::vector<Stream> streams;
  for (int t = 0; t < feed.towers(); ++t)
    streams.emplace_back(feed.device(t).shared_from_this(), "tower");
  for (;;) {
    Step step;
    for (int t = 0; t < feed.towers(); ++t) {
      const Stream& stream = streams[static_cast<std::size_t>(t)];
      std::optional<StagedBatch> batch = feed.next(t);
      if (!batch) continue;
      batch->wait(stream);
      const DeviceTensor& text = (*batch)["text"];
      step.widths.push_back(text.shape[1]);
      const auto values = test::read<std::int64_t>(stream, text);
      for (std::int64_t row = 0; row < batch->valid_rows(); ++row)
        step.numbers.push_back(values[static_cast<std::size_t>(row * text.shape[1])]);
    }
    if (step.widths.empty()) return steps;
    steps.push_back(std::move(step));
  }
}

FeedOptions options_of(EpochEnd end = EpochEnd::drop) {
  FeedOptions options;
  options.end = end;
  options.max_bytes = 1 << 16;
  options.run.threads = 2;
  return options;
}

/// How much longer steps take than the mean tower works, if the time of a batch is that of its
/// longest text and all towers wait for the last one.
double excess(const std::vector<Step>& steps) {
  double longest = 0;
  double mean = 0;
  for (const Step& step : steps) {
    longest += static_cast<double>(std::ranges::max(step.widths));
    for (const std::int64_t width : step.widths)
      mean += static_cast<double>(width) / static_cast<double>(step.widths.size());
  }
  return longest / mean;
}

TEST(FeedBuckets, WaitsForLongTexts) {
  const test::TimeLimit limit(60);
  Feed together(texts(8000, kTowers), some_devices(kTowers, true), options_of());
  Feed apart(texts(8000, 1), some_devices(kTowers, true), options_of());
  const double with = excess(steps_of(together));
  const double without = excess(steps_of(apart));
  RecordProperty("with", std::to_string(with));
  RecordProperty("without", std::to_string(without));
  EXPECT_LE(with, 1.05);
  EXPECT_GE(without, 1.5);
}

TEST(FeedBuckets, TextsOfAnEpoch) {
  const test::TimeLimit limit(60);
  for (const EpochEnd end : {EpochEnd::drop, EpochEnd::stop}) {
    Feed feed(texts(2000, kTowers), some_devices(kTowers, true), options_of(end));
    std::vector<std::int64_t> all;
    for (const Step& step : steps_of(feed)) {
      EXPECT_EQ(step.widths.size(), static_cast<std::size_t>(kTowers));
      std::ranges::copy(step.numbers, std::back_inserter(all));
    }
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    EXPECT_GT(all.size(), 2000U - 95 * kTowers) << "a bucket lacks fewer than a text a tower";
    EXPECT_EQ(feed.stats().lost, 0U);
  }
}

TEST(FeedBuckets, ContinuesWithinARound) {
  const test::TimeLimit limit(60);
  const Dataset dataset = texts(600, kTowers);
  Feed whole(dataset, some_devices(kTowers, true), options_of());
  const std::vector<Step> expected = steps_of(whole);
  for (std::size_t taken = 0; taken <= expected.size(); taken += 3) {
    Feed begun(dataset, some_devices(kTowers, true), options_of());
    for (std::size_t s = 0; s < taken; ++s)
      for (int t = 0; t < kTowers; ++t) ASSERT_TRUE(begun.next(t));
    Feed rest = Feed::restore(begun.save(), dataset, some_devices(kTowers, true), options_of());
    const std::vector<Step> got = steps_of(rest);
    ASSERT_EQ(got.size(), expected.size() - taken);
    for (std::size_t s = 0; s < got.size(); ++s)
      EXPECT_EQ(got[s].numbers, expected[taken + s].numbers);
  }
}

TEST(FeedBuckets, MismatchedRounds) {
  const auto why = [](int round, FeedOptions options) {
    return test::text_of(
        [&] { (void)Feed(texts(10, round), some_devices(kTowers, true), options); });
  };
  EXPECT_THAT(
      why(3, options_of()),
      testing::HasSubstr("gives 3 batches of a bucket together, and the feed has 8 towers"));
  FeedOptions sharded = options_of();
  sharded.mode = FeedMode::sharded;
  EXPECT_THAT(why(8, sharded), testing::HasSubstr("FeedMode::sharded"));
  EXPECT_EQ(why(16, options_of()), "nothing was thrown");
}

}  // namespace feed_buckets_test
}  // namespace penstock
