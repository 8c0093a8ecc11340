// Feeds that are stopped anywhere and continue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include <penstock/rng.h>

#include "staging/feed_impl.h"
#include "tests/staging/scripted.h"
#include "tests/staging/take.h"
#include "tests/support/errors.h"

namespace penstock {
namespace feed_state_test {

using test::Numbers;
using test::some_devices;

constexpr int kTowers = 3;
constexpr std::int64_t kRows = 2;

/// What a tower was given, one after the other: valid numbers, and nothing for an epoch's end.
using Given = std::vector<Numbers>;

Dataset dataset_for(FeedMode mode, std::int64_t n) {
  return range(n)
      .shuffle({.seed = 5})
      .map([](const Element& in) { return in; })
      .batch(mode == FeedMode::split ? kTowers * kRows : kRows);
}

/// One call of `next`; false once the feed has ended for this tower.
bool take_one(Feed& feed, int tower, Given& given) {
  if (feed.ended(tower)) return false;
  const Stream stream(feed.device(tower).shared_from_this(), "tower");
  std::optional<StagedBatch> batch = feed.next(tower);
  if (!batch) {
    given.emplace_back();
    return true;
  }
  batch->wait(stream);
  Numbers numbers = test::read<std::int64_t>(stream, (*batch)[0]);
  numbers.resize(static_cast<std::size_t>(batch->valid_rows()));
  given.push_back(std::move(numbers));
  return true;
}

bool ended(const Feed& feed) {
  bool all = true;
  for (int t = 0; t < feed.towers(); ++t) all = all && feed.ended(t);
  return all;
}

/// Towers take in a random order, none more than `apart` ahead of another, until each has ended or
/// `most` were taken in all.
void take_some(Feed& feed, std::vector<Given>& given, std::size_t most, std::uint64_t seed,
               std::size_t apart) {
  Rng rng(9, seed, 0);
  for (std::size_t taken = 0; taken < most && !ended(feed);) {
    std::size_t least = SIZE_MAX;
    for (const Given& each : given) least = std::min(least, each.size());
    const auto tower = static_cast<std::size_t>(rng.below(kTowers));
    if (given[tower].size() - least >= apart) continue;
    taken += take_one(feed, static_cast<int>(tower), given[tower]) ? 1 : 0;
  }
}

struct Kind {
  FeedMode mode = FeedMode::per_tower;
  EpochEnd end = EpochEnd::drop;
};

FeedOptions options_for(const Kind& kind) {
  FeedOptions options;
  options.mode = kind.mode;
  options.end = kind.end;
  options.run.epochs = 3;
  options.run.threads = 2;
  options.run.seed = 11;
  return options;
}

class FeedStates : public testing::TestWithParam<std::tuple<FeedMode, EpochEnd>> {};

TEST_P(FeedStates, PositionOfEachTower) {
  const Kind kind{std::get<0>(GetParam()), std::get<1>(GetParam())};
  for (const std::int64_t n : {4, 31}) {
    const Dataset dataset = dataset_for(kind.mode, n);
    std::vector<Given> whole(kTowers);
    std::uint64_t lost = 0;
    {
      Feed feed(dataset, some_devices(kTowers, true), options_for(kind));
      take_some(feed, whole, SIZE_MAX, 0, 2);
      lost = feed.stats().lost;
    }
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      SCOPED_TRACE(testing::Message() << "n " << n << ", seed " << seed);
      std::vector<Given> given(kTowers);
      Rng rng(3, seed, 0);
      std::string state;
      for (int hop = 0;; ++hop) {
        FeedOptions options = options_for(kind);
        options.slots = 1 + static_cast<int>(rng.below(3));
        const std::vector<DevicePtr> devices = some_devices(kTowers, hop % 2 == 0);
        Feed feed = hop == 0 ? Feed(dataset, devices, options)
                             : Feed::restore(state, dataset, devices, options);
        take_some(feed, given, rng.below(9), 100 * seed + static_cast<std::uint64_t>(hop),
                  static_cast<std::size_t>(options.slots));
        state = feed.save();
        EXPECT_LE(state.size(), 4096U);
        if (!ended(feed)) continue;
        EXPECT_EQ(feed.stats().lost, lost);
        break;
      }
      ASSERT_EQ(given, whole);
      Feed over = Feed::restore(state, dataset, some_devices(kTowers, true), options_for(kind));
      for (int t = 0; t < kTowers; ++t) {
        EXPECT_FALSE(over.next(t));
        EXPECT_FALSE(over.next(t));
      }
    }
  }
}

/// The states before the first step and after each, with a feed that reads ahead further or less
/// far.
std::vector<std::string> exact_states(Feed& feed, std::uint64_t seed) {
  std::vector<std::string> states{feed.save()};
  std::vector<Given> given(kTowers);
  while (!ended(feed)) {
    for (std::size_t t = 0; t < kTowers; ++t) take_one(feed, static_cast<int>(t), given[t]);
    if (Rng(4, seed, static_cast<std::uint32_t>(states.size())).below(4) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    states.push_back(feed.save());
  }
  return states;
}

TEST_P(FeedStates, ExactStates) {
  const Kind kind{std::get<0>(GetParam()), std::get<1>(GetParam())};
  const auto dataset = [&] { return dataset_for(kind.mode, 31); };
  FeedOptions options = options_for(kind);
  options.run.exact_state = true;
  std::vector<std::string> expected;
  for (int slots = 1; slots < 4; ++slots) {
    options.slots = slots;
    Feed feed(dataset(), some_devices(kTowers, true), options);
    const auto states = exact_states(feed, static_cast<std::uint64_t>(slots));
    if (slots == 1) expected = states;
    ASSERT_EQ(states.size(), expected.size());
    for (std::size_t i = 0; i < states.size(); ++i)
      EXPECT_TRUE(states[i] == expected[i]) << "state " << i << ", " << slots << " slots";
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}, expected.size() / 2}) {
    Feed feed = Feed::restore(expected[at], dataset(), some_devices(kTowers, true), options);
    const auto states = exact_states(feed, at);
    ASSERT_EQ(states.size(), expected.size() - at);
    for (std::size_t i = 0; i < states.size(); ++i)
      EXPECT_TRUE(states[i] == expected[at + i]) << "state " << i << " from " << at << " on";
  }
}

TEST(ExactFeedStates, TowersOutOfTurn) {
  FeedOptions options;
  options.in_turn = false;
  options.run.exact_state = true;
  const Dataset dataset = dataset_for(FeedMode::per_tower, 31);
  test::expect_error(ErrorCode::invalid_argument, "not served in turn",
                     [&] { Feed(dataset, some_devices(kTowers, true), options); });
}

TEST_P(FeedStates, MoreEpochsOfAFinishedFeed) {
  const Kind kind{std::get<0>(GetParam()), std::get<1>(GetParam())};
  for (const bool in_turn : {true, false}) {
    if (!in_turn && (kind.mode != FeedMode::per_tower || kind.end == EpochEnd::wrap)) continue;
    for (const std::int64_t n : {4, 31}) {
      SCOPED_TRACE(testing::Message() << "n " << n << ", in turn " << in_turn);
      const Dataset dataset = dataset_for(kind.mode, n);
      FeedOptions options = options_for(kind);
      options.in_turn = in_turn;
      const auto take_all = [&](std::uint64_t epochs, std::string& state) {
        options.run.epochs = epochs;
        const std::vector<DevicePtr> devices = some_devices(kTowers, true);
        Feed feed = state.empty() ? Feed(dataset, devices, options)
                                  : Feed::restore(state, dataset, devices, options);
        std::vector<Given> given(kTowers);
        if (in_turn) {
          take_some(feed, given, SIZE_MAX, 0, 2);
        } else {
          std::vector<std::jthread> threads;
          for (int t = 0; t < kTowers; ++t) {
            threads.emplace_back([&, t] {
              while (take_one(feed, t, given[static_cast<std::size_t>(t)])) {
              }
            });
          }
        }
        state = feed.save();
        return std::pair(given, feed.stats().lost);
      };
      std::string none;
      auto [whole, lost] = take_all(4, none);
      std::string state;
      std::vector<Given> parts(kTowers);
      std::uint64_t lost_in_parts = 0;
      for (const std::uint64_t epochs : {1U, 1U, 3U, 2U, 4U}) {
        auto [given, lost_now] = take_all(epochs, state);
        lost_in_parts = lost_now;
        for (std::size_t t = 0; t < kTowers; ++t)
          parts[t].insert(parts[t].end(), given[t].begin(), given[t].end());
      }
      EXPECT_EQ(lost_in_parts, lost);
      const auto rows_in = [](const Given& given) {
        std::size_t count = 0;
        for (const Numbers& each : given) count += each.size();
        return count;
      };
      std::size_t rows = 0;
      std::size_t rows_of_whole = 0;
      for (std::size_t t = 0; t < kTowers; ++t) {
        if (in_turn) {
          EXPECT_EQ(parts[t], whole[t]);
        }
        rows += rows_in(parts[t]);
        rows_of_whole += rows_in(whole[t]);
      }
      EXPECT_EQ(rows, rows_of_whole);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FeedStates,
                         testing::Combine(testing::Values(FeedMode::split, FeedMode::per_tower,
                                                          FeedMode::sharded),
                                          testing::Values(EpochEnd::drop, EpochEnd::pad,
                                                          EpochEnd::wrap, EpochEnd::stop)));

class FreePace : public testing::TestWithParam<EpochEnd> {};

TEST_P(FreePace, DeliversTheSameMultisetAndWhatWasAssignedStays) {
  constexpr std::int64_t kN = 101;
  const Dataset dataset = dataset_for(FeedMode::per_tower, kN);
  FeedOptions options = options_for({FeedMode::per_tower, GetParam()});
  options.in_turn = false;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(4, seed, 0);
    std::vector<Given> given(kTowers);
    std::string state;
    for (int hop = 0;; ++hop) {
      Feed feed = hop == 0 ? Feed(dataset, some_devices(kTowers, true), options)
                           : Feed::restore(state, dataset, some_devices(kTowers, true), options);
      // One tower may run far ahead, and the others may have batches that they did not take.
      const auto favourite = static_cast<int>(rng.below(kTowers));
      for (auto left = rng.below(6); left > 0; --left)
        take_one(feed, favourite, given[static_cast<std::size_t>(favourite)]);
      state = feed.save();
      if (hop < 4) continue;
      std::vector<std::thread> threads;
      for (int t = 0; t < kTowers; ++t) {
        threads.emplace_back([&, t] {
          while (take_one(feed, t, given[static_cast<std::size_t>(t)])) {
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      break;
    }
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      Numbers all;
      for (Given& tower : given) {
        const auto end = std::find(tower.begin(), tower.end(), Numbers());
        ASSERT_NE(end, tower.end());
        for (auto batch = tower.begin(); batch != end; ++batch)
          all.insert(all.end(), batch->begin(), batch->end());
        tower.erase(tower.begin(), end + 1);
      }
      const std::int64_t full = kN / (kTowers * kRows) * (kTowers * kRows);
      std::sort(all.begin(), all.end());
      if (GetParam() == EpochEnd::drop) {
        // The last of the shuffled are lost.
        ASSERT_EQ(static_cast<std::int64_t>(all.size()), full);
        EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
      } else {
        Numbers expected(kN);
        for (std::int64_t i = 0; i < kN; ++i) expected[static_cast<std::size_t>(i)] = i;
        EXPECT_EQ(all, expected);
      }
    }
    for (const Given& tower : given) EXPECT_TRUE(tower.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, FreePace,
                         testing::Values(EpochEnd::drop, EpochEnd::pad, EpochEnd::stop));

TEST(FeedState, AssignedBatch) {
  const Dataset dataset = range(40).batch(1);
  FeedOptions options;
  options.in_turn = false;
  std::string state;
  {
    Feed feed(dataset, some_devices(2, true), options);
    Given given;
    // Tower 1 never asks: it keeps what it was assigned while tower 0 takes all others.
    for (int i = 0; i < 30; ++i) take_one(feed, 0, given);
    state = feed.save();
  }
  std::vector<Numbers> first(2);
  for (int again = 0; again < 2; ++again) {
    Feed feed = Feed::restore(state, dataset, some_devices(2, true), options);
    Given given;
    take_one(feed, 1, given);
    first[static_cast<std::size_t>(again)] = given[0];
  }
  EXPECT_EQ(first[0], first[1]);
  EXPECT_LT(first[0][0], 6);  // it was among the first
}

TEST(FeedState, FailedElement) {
  const Dataset dataset = range(100)
                              .map([](const Element& in) {
                                if (in[0].item<std::int64_t>() == 41)
                                  throw std::runtime_error("no");
                                return in;
                              })
                              .batch(4);
  std::string state;
  for (int run = 0; run < 3; ++run) {
    const std::vector<DevicePtr> devices = some_devices(1, true);
    Feed feed = run == 0 ? Feed(dataset, devices) : Feed::restore(state, dataset, devices);
    Given given;
    const auto drain = [&] {
      while (take_one(feed, 0, given)) {
      }
    };
    // It takes the element in front of it along, and the last two are no full batch.
    EXPECT_EQ(test::code_of(drain), run == 0 ? std::optional(ErrorCode::user) : std::nullopt);
    EXPECT_EQ(given.size(), run == 0 ? 10U : run == 1 ? 15U : 0U);  // with the end
    state = feed.save();
  }
}

TEST(FeedState, IsRefusedByAnotherFeedOrIfDamaged) {
  const Dataset dataset = range(100).batch(6);
  std::string state;
  {
    Feed feed(dataset, some_devices(2, true));
    Given given;
    take_one(feed, 0, given);
    state = feed.save();
  }
  const auto code = [&](std::string_view bytes, const Dataset& of, int towers,
                        const FeedOptions& options) {
    return test::code_of(
        [&] { static_cast<void>(Feed::restore(bytes, of, some_devices(towers, true), options)); });
  };
  EXPECT_EQ(code(state, dataset, 2, {}), std::nullopt);
  EXPECT_EQ(code(state, dataset, 3, {}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(state, dataset, 2, {.mode = FeedMode::split}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(state, dataset, 2, {.end = EpochEnd::pad}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(state, dataset, 2, {.in_turn = false}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(state, range(100).batch(7), 2, {}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(state, range(101).batch(6), 2, {}), ErrorCode::invalid_argument);
  EXPECT_THAT(test::text_of(
                  [&] { static_cast<void>(Feed::restore(state, dataset, some_devices(3, true))); }),
              testing::HasSubstr("number of towers was 2, not 3"));
  const auto text = [&](const FeedOptions& options) {
    return test::text_of(
        [&] { static_cast<void>(Feed::restore(state, dataset, some_devices(2, true), options)); });
  };
  EXPECT_THAT(text({.mode = FeedMode::split}),
              testing::HasSubstr("its mode was FeedMode::per_tower, not FeedMode::split"));
  EXPECT_THAT(text({.end = EpochEnd::pad}),
              testing::HasSubstr("its end was EpochEnd::drop, not EpochEnd::pad"));
  EXPECT_THAT(text({.in_turn = false}), testing::HasSubstr("its in_turn was true, not false"));
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(code(state.substr(0, i), dataset, 2, {}), ErrorCode::data_loss) << i;
    std::string flipped = state;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    const std::optional<ErrorCode> refused = code(flipped, dataset, 2, {});
    EXPECT_TRUE(refused == ErrorCode::data_loss) << i;
  }
}

TEST(FeedState, OtherNumbersOfTowers) {
  const Dataset dataset = dataset_for(FeedMode::split, 40);  // batches of 6
  for (const EpochEnd end : {EpochEnd::drop, EpochEnd::pad, EpochEnd::wrap}) {
    const FeedOptions options = options_for({FeedMode::split, end});
    const auto step = [](Feed& feed) {
      Numbers all;
      for (int t = 0; t < feed.towers(); ++t) {
        Given given;
        take_one(feed, t, given);
        if (!given.empty()) all.insert(all.end(), given[0].begin(), given[0].end());
      }
      return all;
    };
    Feed whole(dataset, some_devices(2, true), options);
    std::vector<Numbers> steps;
    while (!ended(whole)) steps.push_back(step(whole));
    std::string state;
    for (std::size_t at = 0, hop = 0; at < steps.size(); ++hop) {
      const std::vector<DevicePtr> devices =
          some_devices(std::vector<int>{2, 3, 1, 6}[hop % 4], hop % 2 == 0);
      Feed feed = hop == 0 ? Feed(dataset, devices, options)
                           : Feed::restore(state, dataset, devices, options);
      for (int i = 0; i < 4 && at < steps.size(); ++i, ++at)
        EXPECT_THAT(step(feed), testing::UnorderedElementsAreArray(steps[at])) << at;
      state = feed.save();
    }
  }
  FeedOptions stops = options_for({FeedMode::split, EpochEnd::stop});
  Feed feed(dataset, some_devices(2, true), stops);
  EXPECT_THAT(
      test::text_of([&] {
        static_cast<void>(Feed::restore(feed.save(), dataset, some_devices(3, true), stops));
      }),
      testing::HasSubstr("number of towers was 2, not 3"));
}

TEST(FeedState, GraphWithoutAPosition) {
  std::vector<BatchSourcePtr> sources;
  sources.push_back(std::make_unique<test::ScriptedSource>(
      test::Script{.elements = 7, .rows = 2, .epochs = 3, .saves = false}));
  FeedOptions options;
  options.end = EpochEnd::wrap;
  options.run.epochs = 2;
  Feed feed(std::make_unique<Feed::Impl>(Feed::Impl::Parts{.sources = std::move(sources),
                                                           .batches = test::ScriptedSource::spec(),
                                                           .room = 2,
                                                           .rules = {.rows = 2},
                                                           .devices = some_devices(2, true),
                                                           .options = options}));
  const auto saves = [&] { static_cast<void>(feed.save()); };
  EXPECT_EQ(test::code_of(saves), ErrorCode::invalid_argument);
  int steps = 0;
  while (!feed.ended(1)) {
    for (int t = 0; t < 2; ++t) steps += feed.next(t) ? 1 : 0;
  }
  EXPECT_EQ(steps, 8);
  EXPECT_THAT(test::text_of(saves), testing::HasSubstr("no position"));
}

}  // namespace feed_state_test
}  // namespace penstock
