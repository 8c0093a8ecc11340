// One suite over feeds: every mode, end of an epoch and graph that makes batches gives towers the
// elements of a sequential run, whole or stopped anywhere and restored.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include <penstock/rng.h>

#include "tests/staging/take.h"

namespace penstock {
namespace {

using test::Numbers;
using test::some_devices;
using test::Taken;

constexpr int kTowers = 3;
constexpr std::int64_t kRows = 2;
constexpr std::int64_t kFull = kTowers * kRows;

struct FeedCase {
  std::string name;
  /// A permutation of the numbers below n, the same in each run, in batches of so many.
  std::function<Dataset(std::int64_t n, std::int64_t rows)> build;
  /// False: no feed takes it so far, and says so when it is made.
  bool accepted = true;
};

Element same(Element element) {
  return element;
}

/// Add a graph here and the whole suite runs over it.
std::vector<FeedCase> graphs() {
  const auto below = [](std::int64_t n) {
    return [n](const Element& element) { return element[0].item<std::int64_t>() < n; };
  };
  return {
      {"batches", [](auto n, auto rows) { return range(n).batch(rows); }},
      {"shuffled", [](auto n, auto rows) { return range(n).shuffle({.seed = 5}).batch(rows); }},
      {"mapped", [](auto n, auto rows) { return range(n).map(same).batch(rows).prefetch(1); }},
      {"filtered",
       [below](auto n, auto rows) { return range(n + 9).filter(below(n)).batch(rows); }},
      {"cached", [](auto n, auto rows) { return range(n).map(same).cache().batch(rows); }},
      {"bad_elements_left_out",
       [](auto n, auto rows) {
         const auto fail = [n](Element element) {
           if (element[0].item<std::int64_t>() >= n) throw std::runtime_error("bad");
           return element;
         };
         return range(n + 4).map(fail).ignore_errors().batch(rows);
       }},
      {"nested",
       [](auto n, auto rows) {
         const auto one = [](const Element& element) {
           const std::int64_t value = element[0].item<std::int64_t>();
           return range(value, value + 1);
         };
         return range(n).flat_map(one, Spec({{"value", DType::i64, {}}})).batch(rows);
       }},
      {"mapped_batches", [](auto n, auto rows) { return range(n).batch(rows).map(same); }, false},
      {"rebatched", [](auto n, auto rows) { return range(n).batch(4).rebatch(rows); }, false},
  };
}

std::string name_of(FeedMode mode) {
  return mode == FeedMode::split ? "split" : mode == FeedMode::sharded ? "sharded" : "per_tower";
}
std::string name_of(EpochEnd end) {
  return end == EpochEnd::drop   ? "drop"
         : end == EpochEnd::pad  ? "pad"
         : end == EpochEnd::wrap ? "wrap"
                                 : "stop";
}

class Feeds : public testing::TestWithParam<std::tuple<FeedCase, FeedMode, EpochEnd>> {
 protected:
  const FeedCase graph_ = std::get<0>(GetParam());
  const FeedMode mode_ = std::get<1>(GetParam());
  const EpochEnd end_ = std::get<2>(GetParam());

  Dataset dataset(std::int64_t n) const {
    return graph_.build(n, mode_ == FeedMode::split ? kFull : kRows);
  }
  FeedOptions options() const {
    FeedOptions options;
    options.mode = mode_;
    options.end = end_;
    options.run.epochs = 2;
    options.run.threads = 2;
    options.run.seed = 3;
    return options;
  }
  /// What a feed does not take it refuses when it is made.
  bool refused() const {
    if (graph_.accepted) return false;
    EXPECT_EQ(test::code_of([&] { Feed(dataset(8), some_devices(kTowers, true), options()); }),
              ErrorCode::invalid_argument);
    return true;
  }
};

TEST_P(Feeds, GiveTheElementsOfASequentialRun) {
  if (refused()) return;
  for (const std::int64_t n : {0, 1, 5, 23, 24, 25, 31}) {
    for (const bool unified : {false, true}) {
      Feed feed(dataset(n), some_devices(kTowers, unified), options());
      const std::vector<Taken> taken = test::take_all(feed);
      const std::int64_t rest = n % kFull;
      const bool one_more = rest > 0 && (end_ == EpochEnd::pad || end_ == EpochEnd::wrap ||
                                         (end_ == EpochEnd::stop && rest >= kTowers));
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        Numbers all;
        for (const Taken& tower : taken) {
          ASSERT_EQ(tower.size(), 2U);
          ASSERT_EQ(static_cast<std::int64_t>(tower[epoch].size()), n / kFull + (one_more ? 1 : 0))
              << n;
          for (const Numbers& batch : tower[epoch])
            all.insert(all.end(), batch.begin(), batch.end());
        }
        std::sort(all.begin(), all.end());
        // Which elements are left over, or come from the next epoch, is up to the order.
        EXPECT_EQ(static_cast<std::int64_t>(all.size()), !one_more                ? n - rest
                                                         : end_ == EpochEnd::wrap ? n - rest + kFull
                                                                                  : n)
            << n;
        for (const std::int64_t number : all) EXPECT_TRUE(number >= 0 && number < n);
        if (one_more) {
          all.erase(std::unique(all.begin(), all.end()), all.end());
          EXPECT_EQ(static_cast<std::int64_t>(all.size()), n);
        } else {
          EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
        }
      }
      EXPECT_EQ(feed.stats().lost, one_more ? 0U : 2U * static_cast<std::uint64_t>(rest)) << n;
      EXPECT_FALSE(feed.next(0));
      for (int t = 0; t < kTowers && !unified; ++t)
        EXPECT_TRUE(static_cast<HostDevice&>(feed.device(t)).hazards().empty());
    }
  }
}

/// Towers take in a random order, none more than one ahead of another, until all have ended or
/// `most` were taken; an epoch's end is an empty batch.
void take_some(Feed& feed, std::vector<std::vector<Numbers>>& given, std::uint64_t most, Rng& rng) {
  for (std::uint64_t taken = 0; taken < most;) {
    std::vector<int> behind;
    std::size_t least = SIZE_MAX;
    for (int t = 0; t < kTowers; ++t) {
      if (!feed.ended(t)) least = std::min(least, given[static_cast<std::size_t>(t)].size());
    }
    for (int t = 0; t < kTowers; ++t) {
      if (!feed.ended(t) && given[static_cast<std::size_t>(t)].size() == least) behind.push_back(t);
    }
    if (behind.empty()) return;
    const int tower = behind[rng.below(behind.size())];
    const Stream stream(feed.device(tower).shared_from_this(), "tower");
    std::optional<StagedBatch> batch = feed.next(tower);
    Numbers numbers;
    if (batch) {
      batch->wait(stream);
      numbers = test::read<std::int64_t>(stream, (*batch)[0]);
      numbers.resize(static_cast<std::size_t>(batch->valid_rows()));
    }
    given[static_cast<std::size_t>(tower)].push_back(std::move(numbers));
    ++taken;
  }
}

TEST_P(Feeds, GoOnWhereTheyWere) {
  if (refused()) return;
  for (const std::int64_t n : {4, 31}) {
    const Dataset graph = dataset(n);
    Rng rng(3, static_cast<std::uint64_t>(n), 0);
    std::vector<std::vector<Numbers>> whole(kTowers);
    Feed once(graph, some_devices(kTowers, true), options());
    take_some(once, whole, UINT64_MAX, rng);
    std::vector<std::vector<Numbers>> parts(kTowers);
    std::string state;
    for (int hop = 0;; ++hop) {
      FeedOptions other = options();
      other.slots = 1 + static_cast<int>(rng.below(3));
      const std::vector<DevicePtr> devices = some_devices(kTowers, hop % 2 == 0);
      Feed feed =
          hop == 0 ? Feed(graph, devices, other) : Feed::restore(state, graph, devices, other);
      take_some(feed, parts, rng.below(9), rng);
      state = feed.save();
      bool ended = true;
      for (int t = 0; t < kTowers; ++t) ended = ended && feed.ended(t);
      if (!ended) continue;
      EXPECT_EQ(feed.stats().lost, once.stats().lost);
      break;
    }
    EXPECT_EQ(parts, whole) << n;
  }
}

TEST_P(Feeds, WakeEveryTowerWhenCancelled) {
  if (refused()) return;
  FeedOptions endless = options();
  endless.run.epochs = std::uint64_t{1} << 40;
  Feed feed(dataset(31), some_devices(kTowers, true), endless);
  std::vector<std::optional<ErrorCode>> codes(kTowers);
  std::vector<std::thread> threads;
  for (int t = 0; t < kTowers; ++t) {
    threads.emplace_back([&, t] {
      codes[static_cast<std::size_t>(t)] = test::code_of([&] {
        for (;;) static_cast<void>(feed.next(t));
      });
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  feed.cancel();
  for (std::thread& thread : threads) thread.join();
  for (const auto& code : codes) EXPECT_EQ(code, ErrorCode::cancelled);
}

INSTANTIATE_TEST_SUITE_P(Conformance, Feeds,
                         testing::Combine(testing::ValuesIn(graphs()),
                                          testing::Values(FeedMode::split, FeedMode::per_tower,
                                                          FeedMode::sharded),
                                          testing::Values(EpochEnd::drop, EpochEnd::pad,
                                                          EpochEnd::wrap, EpochEnd::stop)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name + "_" +
                                  name_of(std::get<1>(tested.param)) + "_" +
                                  name_of(std::get<2>(tested.param));
                         });

}  // namespace
}  // namespace penstock
