// Errors on their way through a staging area, and what one cut image costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "tests/staging/failing.h"
#include "tests/staging/take.h"
#include "tests/support/files.h"
#include "tests/support/images.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::Numbers;
using test::some_devices;

constexpr unsigned kSeconds = 30;  // for what takes milliseconds
constexpr int kTowers = 2;
constexpr std::int64_t kBad = 21;

// A program of one's own around an area.
TEST(AreaErrors, OfEveryCodeAreThrownOnceAndTheRestIsDelivered) {
  const test::TimeLimit limit(kSeconds);
  for (const ErrorCode code : test::kAllCodes) {
    const Dataset graph = test::failing(40, {kBad}, code).batch(4);
    Iterator run = graph.iterate({.threads = 2});
    StagingArea area(some_devices(1, false)[0], graph.spec(), 4, {.watchdog_s = 20});
    std::thread producer([&] {
      for (Next next = run.next(); next; next = run.next()) {
        if (next.is_error()) {
          area.put_error(next.error());
        } else {
          area.put(std::move(*next));
        }
      }
      area.put_end();
    });
    const Stream stream(area.device().shared_from_this(), "compute");
    Numbers numbers;
    std::vector<ErrorCode> errors;
    for (bool ended = false; !ended;) {
      try {
        std::optional<StagedBatch> batch = area.get();
        ended = !batch;
        if (!batch) continue;
        batch->wait(stream);
        const Numbers more = test::read<std::int64_t>(stream, (*batch)[0]);
        numbers.insert(numbers.end(), more.begin(), more.end());
      } catch (const Error& error) {
        errors.push_back(error.code());
      }
    }
    producer.join();
    EXPECT_THAT(errors, testing::ElementsAre(code));
    EXPECT_EQ(numbers.size(), 38U);
  }
}

/// 600 images, of which one is cut.
class CutImage : public testing::Test {
 protected:
  CutImage() {
    const std::vector<std::byte> jpeg = test::make_jpeg(test::make_pixels(24, 32, 3));
    const std::string_view bytes(reinterpret_cast<const char*>(jpeg.data()), jpeg.size());
    for (int i = 0; i < 600; ++i) {
      const std::string number = std::to_string(1000 + i);
      const bool cut = i == 417;
      folder_.write("c/" + number + ".jpg", cut ? bytes.substr(0, bytes.size() / 2) : bytes);
    }
  }
  Dataset graph() const { return images(folder_.path()).map(decode_image().resize(8, 8)).batch(8); }

  test::TempFolder folder_;
};

TEST_F(CutImage, IsNamedToEveryTowerOfAFeedAndCostsNoMoreThanItsBatch) {
  const test::TimeLimit limit(kSeconds);
  for (const OnError policy : {OnError::fail, OnError::skip}) {
    FeedOptions options;
    options.end = EpochEnd::pad;
    options.watchdog_s = 20;
    options.max_bytes = 1 << 16;
    options.run.threads = 2;
    options.run.on_error = policy;
    Feed feed(graph(), some_devices(kTowers, true), options);
    std::int64_t rows = 0;
    std::vector<std::string> texts;
    while (!feed.ended(kTowers - 1)) {
      for (int t = 0; t < kTowers; ++t) {
        try {
          if (std::optional<StagedBatch> batch = feed.next(t)) rows += batch->valid_rows();
        } catch (const Error& error) {
          texts.push_back(error.what());
        }
      }
    }
    EXPECT_EQ(rows, policy == OnError::skip ? 599 : 600 - 417 % 8 - 1);
    EXPECT_EQ(texts.size(), policy == OnError::skip ? 0U : 2U);
    for (const std::string& text : texts) EXPECT_THAT(text, testing::HasSubstr("1417.jpg"));
    EXPECT_EQ(feed.stats().run.errors.count, 1U);
  }
}

TEST_F(CutImage, IsNamedByAnArea) {
  const test::TimeLimit limit(kSeconds);
  const Dataset dataset = graph();
  Iterator run = dataset.iterate({.threads = 2});
  StagingArea area(some_devices(1, false)[0], dataset.spec(), 8);
  std::thread producer([&] {
    for (Next next = run.next(); next; next = run.next()) {
      if (next.is_error()) {
        area.put_error(next.error());
      } else {
        area.put(std::move(*next));
      }
    }
    area.put_end();
  });
  std::int64_t rows = 0;
  std::vector<std::string> texts;
  for (bool ended = false; !ended;) {
    try {
      std::optional<StagedBatch> batch = area.get();
      ended = !batch;
      if (batch) rows += batch->valid_rows();
    } catch (const Error& error) {
      texts.push_back(error.what());
    }
  }
  producer.join();
  EXPECT_EQ(rows, 600 - 417 % 8 - 1);
  EXPECT_THAT(texts, testing::ElementsAre(testing::HasSubstr("1417.jpg")));
}

}  // namespace
}  // namespace penstock
