// What fails costs itself: it is thrown once to each tower at the same step, and the rest is
// delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include <penstock/feed.h>
#include <penstock/penstock.h>
#include <penstock/rng.h>

#include "tests/staging/failing.h"
#include "tests/staging/take.h"
#include "tests/support/files.h"
#include "tests/support/images.h"
#include "tests/support/jpeg_damage.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace feed_errors_test {

using test::failing;
using test::Numbers;
using test::some_devices;

constexpr unsigned kSeconds = 30;  // for what takes milliseconds
constexpr int kTowers = 2;
constexpr std::int64_t kBad = 21;

/// What a tower gets until its feed has ended: numbers, and for each error its code.
struct Got {
  Numbers numbers;
  std::vector<ErrorCode> errors;
  std::vector<std::string> texts;
  std::vector<std::size_t> steps;  // at which they came
  std::size_t taken = 0;
};

void take(Feed& feed, int tower, Got& got, std::size_t most = SIZE_MAX) {
  const Stream stream(feed.device(tower).shared_from_this(), "tower");
  for (; !feed.ended(tower) && got.taken < most; ++got.taken) {
    try {
      std::optional<StagedBatch> batch = feed.next(tower);
      if (!batch) continue;
      batch->wait(stream);
      Numbers numbers = test::read<std::int64_t>(stream, (*batch)["value"]);
      numbers.resize(static_cast<std::size_t>(batch->valid_rows()));
      got.numbers.insert(got.numbers.end(), numbers.begin(), numbers.end());
    } catch (const Error& error) {
      got.errors.push_back(error.code());
      got.texts.push_back(error.what());
      got.steps.push_back(got.taken);
    }
  }
}

std::vector<Got> take_all(Feed& feed) {
  std::vector<Got> got(static_cast<std::size_t>(feed.towers()));
  std::vector<std::thread> threads;
  for (int t = 0; t < feed.towers(); ++t)
    threads.emplace_back([&, t] { take(feed, t, got[static_cast<std::size_t>(t)]); });
  for (std::thread& thread : threads) thread.join();
  return got;
}

Numbers all_of(const std::vector<Got>& got) {
  Numbers all;
  for (const Got& each : got) all.insert(all.end(), each.numbers.begin(), each.numbers.end());
  std::sort(all.begin(), all.end());
  return all;
}

struct Way {
  FeedMode mode = FeedMode::per_tower;
  bool in_turn = true;
};
constexpr std::array kWays = {Way{FeedMode::split}, Way{FeedMode::per_tower},
                              Way{FeedMode::per_tower, false}, Way{FeedMode::sharded}};

FeedOptions options_of(const Way& way, EpochEnd end = EpochEnd::pad) {
  FeedOptions options;
  options.mode = way.mode;
  options.in_turn = way.in_turn;
  options.end = end;
  options.watchdog_s = 20;
  options.run.threads = 2;
  return options;
}

/// What the iterator's rule leaves: the bad element takes along those in front of it in its batch.
Numbers left_of(const Way& way, std::int64_t n, std::int64_t rows, std::int64_t bad) {
  const std::int64_t step = way.mode == FeedMode::sharded ? kTowers : 1;
  const std::int64_t batch = way.mode == FeedMode::split ? rows * kTowers : rows;
  const std::int64_t place = bad / step;  // in its shard
  Numbers left;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool lost = i % step == bad % step && i <= bad && i / step >= place - place % batch;
    if (!lost) left.push_back(i);
  }
  return left;
}

TEST(FeedErrors, OfEveryCodeAreThrownOnceAndTheRestIsDelivered) {
  const test::TimeLimit limit(kSeconds);
  constexpr std::int64_t kRows = 4;
  for (const ErrorCode code : test::kAllCodes) {
    for (const Way& way : kWays) {
      for (const std::int64_t bad : {std::int64_t{0}, kBad, std::int64_t{99}}) {
        SCOPED_TRACE(std::string(name_of(code)) + " at " + std::to_string(bad) + ", mode " +
                     std::to_string(static_cast<int>(way.mode)) +
                     (way.in_turn ? "" : ", out of turn"));
        const std::int64_t rows = way.mode == FeedMode::split ? kRows * kTowers : kRows;
        Feed feed(failing(100, {bad}, code).batch(rows), some_devices(kTowers, bad != kBad),
                  options_of(way));
        const std::vector<Got> got = take_all(feed);
        for (const Got& each : got) {
          EXPECT_THAT(each.errors, testing::ElementsAre(code));
          if (way.in_turn) {
            EXPECT_EQ(each.steps, got[0].steps);
          }
        }
        EXPECT_EQ(all_of(got), left_of(way, 100, kRows, bad));
        EXPECT_EQ(feed.stats().lost, 0U);
        EXPECT_FALSE(feed.next(0));
      }
    }
  }
}

TEST(FeedErrors, OfAnImageAboveTheMostPixelsCostsItAlone) {
  const test::TimeLimit limit(kSeconds);
  const test::TempFolder folder;
  for (int i = 0; i < 12; ++i) {
    std::vector<std::byte> image = test::make_jpeg(test::make_pixels(8, 8, 3));
    if (i == 5) image = test::with_dimensions(image, 65'500, 65'500);
    folder.write("photo" + std::to_string(10 + i) + ".jpg", test::as_text(image));
  }
  for (const Way& way : kWays) {
    for (const OnError on_error : {OnError::fail, OnError::skip}) {
      FeedOptions options = options_of(way);
      options.run.on_error = on_error;
      Feed feed(images(folder.path()).map(decode_image().resize(8, 8)).batch(2),
                some_devices(kTowers, true), options);
      std::atomic<int> errors = 0;
      std::atomic<std::int64_t> rows = 0;
      std::vector<std::thread> towers;
      for (int t = 0; t < kTowers; ++t) {
        towers.emplace_back([&, t] {
          while (!feed.ended(t)) {
            try {
              if (const auto batch = feed.next(t)) rows += batch->valid_rows();
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), ErrorCode::out_of_range) << error.what();
              ++errors;
            }
          }
        });
      }
      for (std::thread& tower : towers) tower.join();
      const bool fails = on_error == OnError::fail;
      EXPECT_EQ(errors, fails ? kTowers : 0);
      // The bad image takes along the one in front of it, if they are in one batch.
      EXPECT_GE(rows, fails ? 10 : 11);
      EXPECT_EQ(feed.stats().lost, 0U);
    }
  }
}

TEST(FeedErrors, SkippedElements) {
  const test::TimeLimit limit(kSeconds);
  for (const Way& way : kWays) {
    FeedOptions options = options_of(way);
    options.run.on_error = OnError::skip;
    const Dataset graph = failing(100, {kBad, 60, 61}, ErrorCode::out_of_range).batch(4);
    Feed feed(graph, some_devices(kTowers, true), options);
    const std::vector<Got> got = take_all(feed);
    for (const Got& each : got) EXPECT_TRUE(each.errors.empty());
    EXPECT_EQ(all_of(got).size(), 97U);
    if (way.mode == FeedMode::sharded) continue;  // each has a run of its own
    EXPECT_EQ(feed.stats().run.errors.count, 3U);
  }
}

// What shards that lost nothing have left is no less wanted.
TEST(FeedErrors, OfOneShardCostTheOthersNothing) {
  const test::TimeLimit limit(kSeconds);
  std::set<std::int64_t> bad;
  for (std::int64_t i = 2; i < 80; i += 4) bad.insert(i);  // half of the first shard
  for (const EpochEnd end : {EpochEnd::drop, EpochEnd::pad, EpochEnd::wrap, EpochEnd::stop}) {
    FeedOptions options = options_of({FeedMode::sharded}, end);
    options.run.on_error = OnError::skip;
    options.run.epochs = 2;
    Feed feed(failing(83, bad, ErrorCode::user).batch(4), some_devices(kTowers, true), options);
    const std::vector<Got> got = take_all(feed);
    const std::size_t good = 83 - bad.size();  // 63: seven steps of 8, and 7
    const std::size_t left = good % 8;
    EXPECT_EQ(all_of(got).size() + feed.stats().lost - feed.stats().wrapped, 2 * good);
    EXPECT_EQ(feed.stats().lost, end == EpochEnd::drop ? 2 * left : 0U);
    EXPECT_EQ(got[0].taken, got[1].taken);
  }
}

TEST(FeedErrors, AllElements) {
  const test::TimeLimit limit(kSeconds);
  for (const ErrorCode code : test::kAllCodes) {
    const std::int64_t count = code == ErrorCode::data_loss ? 500 : 30;
    std::set<std::int64_t> bad;
    for (std::int64_t i = 0; i < count; ++i) bad.insert(i);
    for (const Way& way : kWays) {
      Feed feed(failing(count, bad, code).batch(2), some_devices(kTowers, true), options_of(way));
      const std::vector<Got> got = take_all(feed);
      for (const Got& each : got) {
        EXPECT_EQ(each.errors, std::vector<ErrorCode>(bad.size(), code));
        EXPECT_TRUE(each.numbers.empty());
      }
    }
  }
}

TEST(FeedErrors, AtTheStartOfTheNextEpochDoNotStopItFromBeingWrappedTo) {
  const test::TimeLimit limit(kSeconds);
  for (const std::int64_t bad : {0, 1, 2}) {
    for (const Way& way : {kWays[0], kWays[1], kWays[3]}) {
      FeedOptions options = options_of(way, EpochEnd::wrap);
      options.run.epochs = 3;
      const std::int64_t rows = way.mode == FeedMode::split ? 4 : 2;
      Feed feed(failing(15, {bad}, ErrorCode::user).batch(rows), some_devices(kTowers, true),
                options);
      const std::vector<Got> got = take_all(feed);
      // Where an epoch is to be completed one more is begun.
      const std::size_t met = left_of(way, 15, 2, bad).size() % 4 > 0 ? 4 : 3;
      for (const Got& each : got) EXPECT_EQ(each.errors.size(), met);
      std::map<std::int64_t, int> times;
      for (const std::int64_t number : all_of(got)) ++times[number];
      for (const std::int64_t number : left_of(way, 15, 2, bad)) EXPECT_GE(times[number], 3);
    }
  }
}

TEST(FeedErrors, ErrorBudget) {
  const test::TimeLimit limit(kSeconds);
  for (const Way& way : kWays) {
    FeedOptions options = options_of(way);
    options.run.on_error = OnError::skip;
    options.run.max_errors = 1;
    options.run.epochs = UINT64_MAX;
    std::set<std::int64_t> bad;
    for (std::int64_t i = 40; i < 60; ++i) bad.insert(i);
    Feed feed(failing(100, bad, ErrorCode::out_of_range).batch(4), some_devices(kTowers, true),
              options);
    for (const Got& each : take_all(feed)) {
      ASSERT_THAT(each.errors, testing::ElementsAre(ErrorCode::out_of_range));
      EXPECT_THAT(each.texts[0], testing::HasSubstr("exceed the error budget"));
    }
    for (int t = 0; t < kTowers; ++t) {
      EXPECT_TRUE(feed.ended(t));
      EXPECT_FALSE(feed.next(t));
      EXPECT_EQ(feed.epochs(t), 0U);  // none was delivered to its end
    }
  }
}

TEST(FeedErrors, OfACancelledFeedAreThrownOnceAndThenTheEnd) {
  const test::TimeLimit limit(kSeconds);
  for (const Way& way : kWays) {
    Feed feed(range(1 << 20).repeat().batch(4), some_devices(kTowers, true), options_of(way));
    EXPECT_TRUE(feed.next(0));
    feed.cancel();
    for (int t = 0; t < kTowers; ++t) {
      EXPECT_EQ(test::code_of([&] { static_cast<void>(feed.next(t)); }), ErrorCode::cancelled);
      EXPECT_FALSE(feed.next(t));
      EXPECT_TRUE(feed.ended(t));
    }
  }
}

TEST(FeedErrors, AreNotMetAgainByWhoGoesOn) {
  const test::TimeLimit limit(kSeconds);
  for (const Way& way : kWays) {
    const std::int64_t rows = way.mode == FeedMode::split ? 4 : 2;
    const Dataset graph = failing(31, {3, 10, 11, 18}, ErrorCode::unavailable).batch(rows);
    FeedOptions options = options_of(way);
    // All towers have to come to an error. One thread takes for them, so none may wait for room.
    if (!way.in_turn) options.slots = 32;
    std::vector<Got> whole;
    {
      Feed feed(graph, some_devices(kTowers, true), options);
      whole = take_all(feed);
    }
    for (std::size_t hop = 1; hop < 6; ++hop) {
      std::vector<Got> got(kTowers);
      std::string state;
      Rng rng(7, hop, 0);
      for (bool ended = false; !ended;) {
        Feed feed = state.empty()
                        ? Feed(graph, some_devices(kTowers, true), options)
                        : Feed::restore(state, graph, some_devices(kTowers, true), options);
        // A tower gets up to two steps ahead of the other, now this and now that.
        for (std::size_t taken = 0; taken < hop && !ended; ++taken) {
          auto tower = static_cast<int>(rng.below(kTowers));
          Got& one = got[static_cast<std::size_t>(tower)];
          const Got& other = got[static_cast<std::size_t>(1 - tower)];
          if (one.taken >= other.taken + 2) tower = 1 - tower;
          if (feed.ended(tower)) tower = 1 - tower;
          Got& next = got[static_cast<std::size_t>(tower)];
          take(feed, tower, next, next.taken + 1);
          ended = feed.ended(0) && feed.ended(1);
        }
        state = feed.save();
      }
      for (std::size_t t = 0; t < kTowers; ++t) {
        EXPECT_EQ(got[t].errors.size(), whole[t].errors.size()) << hop;
        if (way.in_turn) {
          EXPECT_EQ(got[t].numbers, whole[t].numbers) << hop;
        }
      }
      EXPECT_EQ(all_of(got), all_of(whole)) << hop;
    }
  }
}

// A read that failed may succeed when the run continues: what towers were told stays as it was.
TEST(FeedErrors, ElementThatRecovers) {
  const test::TimeLimit limit(kSeconds);
  const auto bad = std::make_shared<std::atomic<bool>>(true);
  const Dataset graph = range(24)
                            .map([bad](const Element& in) {
                              if (*bad && in[0].item<std::int64_t>() == 5)
                                throw Error(ErrorCode::unavailable, "not now");
                              return in;
                            })
                            .batch(2);
  const FeedOptions options = options_of({});
  std::vector<Got> got(kTowers);
  std::string state;
  {
    Feed feed(graph, some_devices(kTowers, true), options);
    take(feed, 1, got[1], 1);
    take(feed, 0, got[0], 3);  // the error, and a batch from behind it
    EXPECT_EQ(got[0].errors.size(), 1U);
    state = feed.save();
  }
  *bad = false;
  Feed feed = Feed::restore(state, graph, some_devices(kTowers, true), options);
  std::thread other([&] { take(feed, 1, got[1]); });
  take(feed, 0, got[0]);
  other.join();
  for (const Got& each : got) EXPECT_EQ(each.errors.size(), 1U);
  EXPECT_EQ(all_of(got), left_of({}, 24, 2, 5));
}

TEST(FeedErrors, OfBatchesThatDoNotFitCostThoseBatches) {
  const test::TimeLimit limit(kSeconds);
  const auto with_text = [](Element in) {
    const std::string text(in[0].item<std::int64_t>() == 9 ? 500 : 5, 'x');
    const std::array<std::string_view, 1> texts{text};
    in.set("text", Tensor::of_bytes(texts)[0]);
    return in;
  };
  const Spec spec({{"value", DType::i64, Shape()}, {"text", DType::bytes, Shape()}});
  const Dataset graph = range(32).map(with_text, {.output = spec}).batch(2);
  FeedOptions options = options_of({});
  options.max_bytes = 100;
  Feed feed(graph, some_devices(kTowers, false), options);
  const std::vector<Got> got = take_all(feed);
  for (const Got& each : got) {
    ASSERT_THAT(each.errors, testing::ElementsAre(ErrorCode::out_of_range));
    EXPECT_THAT(each.texts[0], testing::HasSubstr("max_bytes"));
  }
  EXPECT_EQ(all_of(got).size(), 28U);  // that step of all towers
}

TEST(FeedErrors, OfMisuseCostNothing) {
  const test::TimeLimit limit(kSeconds);
  FeedOptions options = options_of({});
  options.watchdog_s = 0.2;
  Feed feed(failing(12, {3}, ErrorCode::out_of_range).batch(2), some_devices(1, true), options);
  const auto code = [&](int tower) {
    return test::code_of([&] { static_cast<void>(feed.next(tower)); });
  };
  std::optional<StagedBatch> first = feed.next(0);
  EXPECT_EQ(code(0), ErrorCode::out_of_range);  // the bad element
  std::optional<StagedBatch> second = feed.next(0);
  EXPECT_EQ(code(0), ErrorCode::no_progress);  // every slot is held
  EXPECT_EQ(code(7), ErrorCode::invalid_argument);
  first.reset();
  second.reset();
  Got got;
  take(feed, 0, got);
  EXPECT_EQ(got.numbers, Numbers({6, 7, 8, 9, 10, 11}));
}

}  // namespace feed_errors_test
}  // namespace penstock
