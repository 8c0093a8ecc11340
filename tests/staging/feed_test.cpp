// Feeds over the engine, on real threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "staging/feed_impl.h"
#include "staging/host/host_device.h"
#include "tests/staging/batches.h"
#include "tests/staging/scripted.h"
#include "tests/staging/take.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace feed_test {

using test::Numbers;
using test::numbers_dataset;
using test::some_devices;
using test::take_all;
using test::Taken;

class FeedModes : public testing::TestWithParam<std::tuple<FeedMode, EpochEnd, bool>> {};

TEST_P(FeedModes, DeliverTheSameElementsAtEveryStep) {
  const auto [mode, end, unified] = GetParam();
  for (const std::int64_t n : {0, 1, 5, 23, 24, 25, 31}) {
    constexpr std::int64_t kTowers = 3;
    constexpr std::int64_t kRows = 2;
    constexpr std::int64_t kFull = kTowers * kRows;
    FeedOptions options;
    options.mode = mode;
    options.end = end;
    options.run.epochs = 2;
    options.run.threads = 2;
    Feed feed(numbers_dataset(n, mode == FeedMode::split ? kFull : kRows),
              some_devices(kTowers, unified), options);
    const std::vector<Taken> taken = take_all(feed);
    const std::int64_t rest = n % kFull;
    const bool one_more = rest > 0 && (end == EpochEnd::pad || end == EpochEnd::wrap ||
                                       (end == EpochEnd::stop && rest >= kTowers));
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      Numbers all;
      for (const Taken& tower : taken) {
        ASSERT_EQ(tower.size(), 2U);
        ASSERT_EQ(static_cast<std::int64_t>(tower[epoch].size()), n / kFull + (one_more ? 1 : 0));
        for (const Numbers& batch : tower[epoch]) all.insert(all.end(), batch.begin(), batch.end());
      }
      Numbers expected;
      for (std::int64_t i = 0; i < (one_more ? n : n - rest); ++i) expected.push_back(i);
      if (one_more && end == EpochEnd::wrap) {
        for (std::int64_t i = 0; i < kFull - rest; ++i) expected.push_back(i % n);
      }
      std::sort(all.begin(), all.end());
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(all, expected) << "n " << n << ", epoch " << epoch;
    }
    EXPECT_EQ(feed.stats().lost, one_more ? 0U : 2U * static_cast<std::uint64_t>(rest));
    EXPECT_FALSE(feed.next(0));
    if (!unified) {
      for (int t = 0; t < feed.towers(); ++t)
        EXPECT_TRUE(static_cast<HostDevice&>(feed.device(t)).hazards().empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FeedModes,
    testing::Combine(testing::Values(FeedMode::split, FeedMode::per_tower, FeedMode::sharded),
                     testing::Values(EpochEnd::drop, EpochEnd::pad, EpochEnd::wrap, EpochEnd::stop),
                     testing::Bool()));

// What the batches of the whole dataset drop no mode delivers, or counts as lost.
TEST(Feed, DroppedRemainder) {
  const auto taken = [](FeedMode mode, EpochEnd end, std::int64_t n) {
    FeedOptions options;
    options.mode = mode;
    options.end = end;
    options.run.epochs = 2;
    const Dataset dataset = range(n).batch(2, {.drop_remainder = true});
    Feed feed(dataset, some_devices(2, true), options);
    std::vector<Numbers> epochs(2);
    for (const Taken& tower : take_all(feed)) {
      for (std::size_t e = 0; e < epochs.size(); ++e) {
        epochs[e].push_back(-static_cast<std::int64_t>(tower[e].size()));
        for (const Numbers& batch : tower[e])
          epochs[e].insert(epochs[e].end(), batch.begin(), batch.end());
      }
    }
    for (Numbers& epoch : epochs) std::sort(epoch.begin(), epoch.end());
    return std::pair(epochs, feed.stats().lost);
  };
  for (const EpochEnd end : {EpochEnd::drop, EpochEnd::pad, EpochEnd::wrap, EpochEnd::stop}) {
    for (std::int64_t n = 0; n < 10; ++n) {
      EXPECT_EQ(taken(FeedMode::sharded, end, n), taken(FeedMode::per_tower, end, n))
          << "end " << static_cast<int>(end) << ", n " << n;
    }
  }
}

TEST(Feed, MultisetOutOfTurn) {
  for (const EpochEnd end : {EpochEnd::drop, EpochEnd::pad, EpochEnd::stop}) {
    FeedOptions options;
    options.in_turn = false;
    options.end = end;
    options.run.epochs = 3;
    Feed feed(numbers_dataset(101, 4), some_devices(3, true), options);
    const std::vector<Taken> taken = take_all(feed);
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      Numbers all;
      for (const Taken& tower : taken) {
        ASSERT_EQ(tower.size(), 3U);
        for (const Numbers& batch : tower[epoch]) all.insert(all.end(), batch.begin(), batch.end());
      }
      std::sort(all.begin(), all.end());
      Numbers expected(end == EpochEnd::drop ? 96 : 101);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::int64_t>(i);
      EXPECT_EQ(all, expected);
    }
  }
}

TEST(Feed, UnifiedDevice) {
  const std::vector<DevicePtr> devices = some_devices(2, true);
  Feed feed(numbers_dataset(400, 8), devices);
  for (int k = 0; k < 50; ++k) ASSERT_TRUE(feed.next(k % 2));
  for (const DevicePtr& device : devices) EXPECT_EQ(device->counters().copies, 0U);
  const auto steps = [&] { return feed.stats().towers[0].steps + feed.stats().towers[1].steps; };
  for (int i = 0; i < 20'000 && steps() < 50; ++i)  // the reapers may be a little behind
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(steps(), 50U);
}

TEST(Feed, TwoTowersOfOneDevice) {
  FeedOptions options;
  options.mode = FeedMode::split;
  Feed feed(numbers_dataset(40, 8), devices("host:0,host:0"), options);
  const std::vector<Taken> taken = take_all(feed);
  EXPECT_EQ(taken[0][0][1], Numbers({8, 9, 10, 11}));
  EXPECT_EQ(taken[1][0][1], Numbers({12, 13, 14, 15}));
}

TEST(Feed, NamedInputs) {
  const auto named = [](const char* name, std::int64_t add) {
    return [name, add](const Element& in) {
      return Element{{name, Tensor::scalar<std::int64_t>(in[0].item<std::int64_t>() + add)}};
    };
  };
  const auto input = [&](const char* name, std::int64_t add) {
    return range(64).map(named(name, add),
                         {.name = name, .output = Spec({{name, DType::i64, Shape()}})});
  };
  const Dataset triplets =
      zip({input("query", 0), input("positive", 1000), input("negative", 2000)}).batch(4);
  Feed feed(triplets, some_devices(2, false));
  for (int step = 0; step < 8; ++step) {
    for (int t = 0; t < 2; ++t) {
      const Stream stream(feed.device(t).shared_from_this(), "tower");
      std::optional<StagedBatch> batch = feed.next(t);
      batch->wait(stream);
      const Numbers query = test::read<std::int64_t>(stream, (*batch)["query"]);
      const Numbers positive = test::read<std::int64_t>(stream, (*batch)["positive"]);
      const Numbers negative = test::read<std::int64_t>(stream, (*batch)["negative"]);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(query[i], 8 * step + 4 * t + static_cast<std::int64_t>(i));
        EXPECT_EQ(positive[i], query[i] + 1000);
        EXPECT_EQ(negative[i], query[i] + 2000);
      }
    }
  }
}

// A batch's components are copied together where they lie close, which those of a short one do.
TEST(Feed, RowsOfPadding) {
  const auto make = [](const Element& in, Element& out, Rng&) {
    const std::int64_t number = in[0].item<std::int64_t>();
    out["label"].mutable_values<std::int64_t>()[0] = number + 100;
    for (std::uint8_t& value : out["image"].mutable_values<std::uint8_t>())
      value = static_cast<std::uint8_t>(number + 1);
  };
  const Spec spec({{"label", DType::i64, Shape()}, {"image", DType::u8, Shape({64})}});
  const Dataset dataset = range(22).map(make, {.name = "make", .output = spec}).batch(8);
  for (const bool unified : {true, false}) {
    FeedOptions options;
    options.end = EpochEnd::pad;
    options.run.epochs = 4;  // slots hold what epochs before left there
    Feed feed(dataset, some_devices(1, unified), options);
    const Stream stream(feed.device(0).shared_from_this(), "tower");
    int padded = 0;
    while (!feed.ended(0)) {
      std::optional<StagedBatch> batch = feed.next(0);
      if (!batch) continue;
      batch->wait(stream);
      const auto labels = test::read<std::int64_t>(stream, (*batch)["label"]);
      const auto images = test::read<std::uint8_t>(stream, (*batch)["image"]);
      const auto rows = static_cast<std::size_t>(batch->valid_rows());
      ASSERT_EQ(labels.size(), 8U);
      ASSERT_EQ(images.size(), 8U * 64);
      for (std::size_t row = 0; row < 8; ++row) {
        EXPECT_EQ(labels[row] == 0, row >= rows) << labels[row];
        EXPECT_EQ(images[64 * row] == 0, row >= rows) << int{images[64 * row]};
      }
      padded += rows < 8 ? 1 : 0;
    }
    EXPECT_EQ(padded, 4);
  }
}

TEST(Feed, TrainingBehindValidation) {
  const std::vector<DevicePtr> two = some_devices(2, false);
  Feed training(numbers_dataset(4'000, 4), two);
  FeedOptions once;
  once.end = EpochEnd::pad;
  once.run.epochs = 5;
  Feed validation(numbers_dataset(30, 4), two, once);
  const Stream first(two[0], "a");
  const Stream second(two[1], "b");
  std::int64_t expected = 0;
  for (int round = 0; round < 5; ++round) {
    for (int step = 0; step < 20; ++step) {
      for (int t = 0; t < 2; ++t) {
        std::optional<StagedBatch> batch = training.next(t);
        const StreamView stream = t == 0 ? first : second;
        batch->wait(stream);
        ASSERT_EQ(test::read<std::int64_t>(stream, (*batch)[0])[0], expected);
        expected += 4;
      }
    }
    std::int64_t rows = 0;
    for (int t = 0; t < 2; ++t) {
      while (std::optional<StagedBatch> batch = validation.next(t)) {
        batch->wait(t == 0 ? first : second);
        rows += batch->valid_rows();
        batch.reset();
        if (t == 0) {
          std::optional<StagedBatch> other = validation.next(1);
          other->wait(second);
          rows += other->valid_rows();
        }
      }
    }
    EXPECT_EQ(rows, 30);
  }
}

TEST(Feed, StepOfAnError) {
  std::vector<BatchSourcePtr> sources;
  sources.push_back(std::make_unique<test::ScriptedSource>(
      test::Script{.elements = 100, .rows = 2, .fails_at = 7}));
  Feed feed(std::make_unique<Feed::Impl>(Feed::Impl::Parts{.sources = std::move(sources),
                                                           .batches = test::ScriptedSource::spec(),
                                                           .room = 2,
                                                           .rules = {.rows = 2},
                                                           .devices = some_devices(2, true)}));
  for (int step = 0; step < 3; ++step) {
    for (int t = 0; t < 2; ++t) EXPECT_TRUE(feed.next(t));
  }
  for (int t = 0; t < 2; ++t)
    EXPECT_EQ(test::code_of([&] { static_cast<void>(feed.next(t)); }), ErrorCode::data_loss);
  // Of 50 batches 43 are left, and the last step would have only one.
  for (int step = 0; step < 21; ++step) {
    for (int t = 0; t < 2; ++t) EXPECT_TRUE(feed.next(t)) << step;
  }
  for (int t = 0; t < 2; ++t) EXPECT_FALSE(feed.next(t));
  EXPECT_EQ(feed.stats().lost, 2U);
}

TEST(Feed, FailedElement) {
  const Dataset dataset = range(100)
                              .map([](const Element& in) {
                                if (in[0].item<std::int64_t>() == 41)
                                  throw std::runtime_error("no");
                                return in;
                              })
                              .batch(4);
  Feed feed(dataset, some_devices(2, true));
  const auto drain = [&](int t) {
    return test::code_of([&] {
      while (feed.next(t)) {
      }
    });
  };
  std::optional<ErrorCode> other;
  std::thread second([&] { other = drain(1); });
  EXPECT_EQ(drain(0), ErrorCode::user);
  second.join();
  EXPECT_EQ(other, ErrorCode::user);
}

TEST(Feed, LostDevice) {
  std::vector<DevicePtr> two = some_devices(1, false);
  two.push_back(HostDevice::make(
      {.index = 1, .unified = false, .faults = {.fail_record = 40, .sticky = true}}));
  Feed feed(range(1 << 20).batch(4), two);
  const auto drain = [&](int t) {
    return test::code_of([&] {
      const Stream stream(two[static_cast<std::size_t>(t)], "tower");
      while (std::optional<StagedBatch> batch = feed.next(t)) batch->wait(stream);
    });
  };
  std::optional<ErrorCode> other;
  std::thread second([&] { other = drain(1); });
  EXPECT_EQ(drain(0), ErrorCode::device_lost);
  second.join();
  EXPECT_EQ(other, ErrorCode::device_lost);
}

TEST(Feed, CancelWhileWaiting) {
  Feed feed(range(1 << 20).repeat().batch(4), some_devices(3, true));
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      if (test::code_of([&] {
            while (feed.next(t)) {
            }
          }) == ErrorCode::cancelled)
        ++cancelled;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  feed.cancel();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cancelled, 3);
}

// The batch that a caller gave up waiting for comes with the next call.
TEST(Feed, WaitThatTheCallerEnds) {
  std::atomic<bool> open{false};
  const Dataset batches = range(4)
                              .map(
                                  [&open](Element element) {
                                    open.wait(false);
                                    return element;
                                  },
                                  {.blocking = true})
                              .batch(2);
  Feed feed(batches, some_devices(1, true));
  int looks = 0;
  const auto give_up = [&looks] {
    if (++looks % 2 == 0) throw std::runtime_error("interrupted");
  };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(feed.next(0, give_up), std::runtime_error);
  EXPECT_EQ(looks, 6);
  const std::string state = feed.save();
  open = true;
  open.notify_all();
  std::optional<StagedBatch> batch = feed.next(0, [] {});
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->sequence(), 0U);
  EXPECT_NE(feed.save(), state);
  EXPECT_TRUE(feed.next(0).has_value());
  EXPECT_FALSE(feed.next(0).has_value());
}

TEST(Feed, IsDestroyedAtAnyMoment) {
  for (int round = 0; round < 60; ++round) {
    FeedOptions options;
    options.mode = static_cast<FeedMode>(round % 3);
    options.run.threads = 2;
    Feed feed(range(10'000).repeat().batch(6), some_devices(2, round % 2 == 0), options);
    std::optional<StagedBatch> kept;
    for (int k = 0; k < round % 5; ++k) kept = feed.next(k % 2);
  }
}

TEST(Feed, WrapsForAnyNumberOfEpochs) {
  FeedOptions options;
  options.end = EpochEnd::wrap;
  options.run.epochs = UINT64_MAX;
  Feed feed(range(7).batch(2), some_devices(1, true), options);
  int ends = 0;
  for (int i = 0; i < 50; ++i) ends += feed.next(0) ? 0 : 1;
  EXPECT_EQ(ends, 10);
  EXPECT_FALSE(feed.ended(0));
}

/// Elements of 1 KiB.
Dataset wide(std::int64_t count) {
  const auto fill = [](const Element& in) {
    Tensor x = Tensor::allocate(DType::u8, Shape({1024}));
    std::memset(x.mutable_data(), static_cast<int>(in[0].item<std::int64_t>() % 251), 1024);
    return Element{{"x", std::move(x)}};
  };
  return range(count).map(fill, {.output = Spec({{"x", DType::u8, Shape({1024})}})});
}

TEST(Feed, RefusesABudgetThatIsTooSmallForAStep) {
  for (const EpochEnd end : {EpochEnd::drop, EpochEnd::wrap}) {
    FeedOptions options{.end = end};
    options.run.memory_bytes = 80 << 10;
    const std::string text =
        test::text_of([&] { Feed(wide(300).batch(50), some_devices(2, true), options); });
    EXPECT_THAT(text, testing::HasSubstr("a step of the feed has 2 batches, which need at least "
                                         "102400 bytes, and the memory budget is 81920"));
    options.mode = FeedMode::split;
    Feed divided(wide(300).batch(50), some_devices(2, true), options);
    Feed one(wide(50).batch(50), some_devices(2, true), {.run = options.run});
  }
}

// The error comes once, not for each step.
TEST(Feed, EndsIfABudgetIsTooSmallForAStep) {
  const auto same = [](Element batch) { return batch; };
  struct Case {
    Dataset dataset;
    EpochEnd end;
    std::uint64_t memory_bytes;
    int batches;
  };
  const test::TimeLimit limit(100);
  for (const Case& test : {Case{wide(300).batch(50).map(same), EpochEnd::drop, 80 << 10, 0},
                           // The epoch's last batch waits for two of the next epoch.
                           Case{wide(350).batch(50), EpochEnd::wrap, 110 << 10, 3}}) {
    for (const bool unified : {true, false}) {
      FeedOptions options{.end = test.end};
      options.run.memory_bytes = test.memory_bytes;
      Feed feed(test.dataset, some_devices(2, unified), options);
      const auto take = [&](int tower) {
        int batches = 0;
        std::string errors;
        while (!feed.ended(tower)) {
          try {
            batches += feed.next(tower) ? 1 : 0;
          } catch (const Error& error) {
            errors += error.what();
          }
        }
        EXPECT_EQ(batches, test.batches);
        EXPECT_THAT(errors, testing::HasSubstr("held by a step of the feed that takes more"));
        EXPECT_EQ(errors.find("held by"), errors.rfind("held by")) << "it comes once";
      };
      std::thread other([&] { take(1); });
      take(0);
      other.join();
    }
  }
}

TEST(Feed, KeepsWithinASmallBudget) {
  FeedOptions options;
  options.run.memory_bytes = 64 << 10;
  options.run.threads = 2;
  Feed feed(wide(300).batch(10), some_devices(2, true), options);
  std::uint64_t rows = 0;
  std::thread other([&] {
    while (feed.next(1)) {
    }
  });
  while (std::optional<StagedBatch> batch = feed.next(0))
    rows += static_cast<std::uint64_t>(batch->valid_rows());
  other.join();
  EXPECT_EQ(rows, 150U);
  EXPECT_LE(feed.stats().run.memory.peak_bytes, 64U << 10);
}

}  // namespace feed_test
}  // namespace penstock
