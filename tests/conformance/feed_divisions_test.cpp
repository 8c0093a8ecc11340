// One suite over feeds whose towers are divided among processes: every graph that makes batches, in
// every mode and with every end of an epoch, gives each tower what the one feed gives it, whole or
// stopped and gone on with in other divisions; and makes what it has to, where that can be told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <tuple>

#include <penstock/plan.h>

#include "pipeline/core/begin_run.h"
#include "tests/conformance/feed_graphs.h"
#include "tests/staging/take.h"
#include "tests/support/errors.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::FeedGraph;
using test::some_devices;

constexpr int kTowers = 4;
constexpr std::int64_t kRows = 2;
constexpr std::uint64_t kEpochs = 2;

std::string name_of(FeedMode mode) {
  return mode == FeedMode::split ? "split" : mode == FeedMode::sharded ? "sharded" : "per_tower";
}
std::string name_of(EpochEnd end) {
  return end == EpochEnd::drop   ? "drop"
         : end == EpochEnd::pad  ? "pad"
         : end == EpochEnd::wrap ? "wrap"
                                 : "stop";
}

/// All that a tower was given: batches as bytes, and ends of epochs.
using Given = std::vector<std::string>;

void take_one(Feed& feed, int tower, Given& given) {
  const Stream own(feed.device(tower).shared_from_this(), "tower");
  const StreamView stream = own;
  std::optional<StagedBatch> batch = feed.next(tower);
  std::string& text = given.emplace_back(batch ? std::to_string(batch->valid_rows()) : "end");
  if (!batch) return;
  batch->wait(stream);
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const DeviceTensor& tensor = batch->at(i);
    std::string bytes(tensor.nbytes(), '\0');
    stream.copy({bytes.data(), tensor.data, bytes.size()});
    stream.synchronize();
    text += ';' + std::to_string(tensor.shape[0]) + ',' + bytes;
  }
}

/// The feeds of so many processes.
class Job {
 public:
  Job(const Dataset& dataset, const FeedOptions& options, int processes,
      const std::vector<std::string>& states = {}) {
    const int each = kTowers / processes;
    for (int p = 0; p < processes; ++p) {
      FeedOptions mine = options;
      if (processes > 1) mine.towers_held = {p * each, kTowers};
      const std::vector<DevicePtr> devices = some_devices(each, true);
      if (states.empty()) {
        feeds_.emplace_back(dataset, devices, mine);
      } else {  // whoever saved it
        feeds_.push_back(Feed::restore(states[static_cast<std::size_t>(p) % states.size()], dataset,
                                       devices, mine));
      }
    }
  }

  Feed& of(int tower) { return feeds_[static_cast<std::size_t>(tower) * feeds_.size() / kTowers]; }
  /// Everything, or so many steps and ends; in all processes at once.
  void take(std::vector<Given>& given, std::size_t most = SIZE_MAX) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kTowers; ++t)
      threads.emplace_back([this, t, most, &mine = given[static_cast<std::size_t>(t)]] {
        for (std::size_t i = 0; i < most && !of(t).ended(t); ++i) take_one(of(t), t, mine);
      });
    for (std::thread& thread : threads) thread.join();
  }
  bool ended() {
    bool all = true;
    for (int t = 0; t < kTowers; ++t) all = all && of(t).ended(t);
    return all;
  }
  std::vector<std::string> save() const {
    std::vector<std::string> states;
    for (const Feed& feed : feeds_) states.push_back(feed.save());
    return states;
  }
  std::vector<Feed>& feeds() { return feeds_; }

 private:
  std::vector<Feed> feeds_;
};

class Divisions : public testing::TestWithParam<std::tuple<FeedGraph, FeedMode, EpochEnd>> {
 protected:
  const FeedGraph graph_ = std::get<0>(GetParam());
  const FeedMode mode_ = std::get<1>(GetParam());
  const EpochEnd end_ = std::get<2>(GetParam());
  const test::TimeLimit limit_{120};

  Dataset dataset(std::int64_t n) const {
    return graph_.build(n, mode_ == FeedMode::split ? kTowers * kRows : kRows);
  }
  FeedOptions options() const {
    FeedOptions options;
    options.mode = mode_;
    options.end = end_;
    options.max_bytes = 4096;
    options.run.epochs = kEpochs;
    options.run.threads = 2;
    options.run.seed = 3;
    return options;
  }
  /// What the one feed gives; nothing where it is refused, which divided ones are too.
  std::optional<std::vector<Given>> whole(std::int64_t n) const {
    std::vector<Given> given(kTowers);
    const auto error = test::thrown_by([&] { Job(dataset(n), options(), 1).take(given); });
    if (!error) return given;
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    const auto refused = test::thrown_by([&] { Job(dataset(n), options(), 2); });
    EXPECT_TRUE(refused && refused->code() == ErrorCode::invalid_argument);
    return std::nullopt;
  }
};

TEST_P(Divisions, GiveEachTowerWhatTheOneFeedGives) {
  for (const std::int64_t n : {0, 3, 24, 43}) {
    const auto one = whole(n);
    if (!one) return;
    for (const int processes : {2, 4}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", processes " + std::to_string(processes));
      Job job(dataset(n), options(), processes);
      std::vector<Given> given(kTowers);
      job.take(given);
      EXPECT_EQ(given, *one);
      const FeedStats first = job.feeds().front().stats();
      for (Feed& feed : job.feeds()) {
        const FeedStats stats = feed.stats();
        EXPECT_EQ(stats.batches, first.batches);
        EXPECT_EQ(stats.elements, first.elements);
        EXPECT_EQ(stats.lost, first.lost);
      }
    }
  }
}

TEST_P(Divisions, GoOnInOthers) {
  for (const std::int64_t n : {24, 43}) {
    const auto one = whole(n);
    if (!one) return;
    std::vector<Given> given(kTowers);
    std::vector<std::string> states;
    bool ended = false;
    for (int hop = 0; !ended; ++hop) {
      ASSERT_LT(hop, 200);
      constexpr int kProcesses[] = {4, 2, 1, 4, 1, 2};
      Job job(dataset(n), options(), kProcesses[hop % 6], states);
      job.take(given, static_cast<std::size_t>(hop % 4));
      states = job.save();
      ended = job.ended();
    }
    EXPECT_EQ(given, *one) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Divisions,
                         testing::Combine(testing::ValuesIn(test::feed_graphs()),
                                          testing::Values(FeedMode::split, FeedMode::per_tower,
                                                          FeedMode::sharded),
                                          testing::Values(EpochEnd::drop, EpochEnd::pad,
                                                          EpochEnd::wrap, EpochEnd::stop)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name + "_" +
                                  name_of(std::get<1>(tested.param)) + "_" +
                                  name_of(std::get<2>(tested.param));
                         });

/// Numbers below n whose making is counted.
Dataset counted(std::int64_t n, std::int64_t rows, std::atomic<int>& made) {
  const auto count = [&made](Element element) {
    made.fetch_add(1);
    return element;
  };
  return range(n).shuffle({.seed = 2}).map(count).batch(rows);
}

TEST(DividedWork, IsThatOfTheTowersHere) {
  const test::TimeLimit limit(60);
  constexpr std::int64_t kNumbers = 4003;  // 500 steps, and 3 that all make
  for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
    SCOPED_TRACE(name_of(mode));
    std::atomic<int> made{0};
    const Dataset dataset =
        counted(kNumbers, mode == FeedMode::split ? kTowers * kRows : kRows, made);
    EXPECT_EQ(made_everywhere(dataset), "");
    for (const int count : {1, 2}) {
      made = 0;
      FeedOptions options{.mode = mode, .towers_held = {1, kTowers}};
      Feed feed(dataset, some_devices(count, true), options);
      EXPECT_EQ(feed.stats().made_everywhere, "");
      Given given;
      for (int i = 0; i < 501; ++i)
        for (int t = 1; t < 1 + count; ++t) take_one(feed, t, given);
      EXPECT_EQ(std::count(given.begin(), given.end(), "end"), count);
      EXPECT_EQ(made, 500 * kRows * count + 3);
    }
  }
}

TEST(DividedWork, NamesTheStageForWhichAllIsMade) {
  const auto same = [](Element element) { return element; };
  const auto all = [](const Element&) { return true; };
  const auto says = [](const Dataset& dataset, const char* what) {
    EXPECT_THAT(made_everywhere(dataset), testing::HasSubstr(what));
  };
  says(range(9).filter(all).batch(2), "filter[1] gives depends on values");
  says(range(9).batch(2).map(same), "map[2] follows the batches");
  says(range(9).map(same, {.ordered = false}).batch(2), "any order");
  RunOptions skipping;
  skipping.on_error = OnError::skip;
  EXPECT_THAT(made_everywhere(range(9).batch(2), skipping), testing::HasSubstr("skipped"));
  EXPECT_EQ(made_everywhere(range(9).map(same).repeat().batch(2).prefetch()), "");
}

TEST(DividedFeed, EndsWhereAnElementFails) {
  const test::TimeLimit limit(60);
  const auto fail = [](Element element) {
    if (element[0].item<std::int64_t>() == 13) throw Error(ErrorCode::data_loss, "thirteen");
    return element;
  };
  const Dataset dataset = range(64).map(fail).batch(kRows);  // 12 and 13 are tower 2's
  Given given;
  Feed other(dataset, some_devices(2, true), {.towers_held = {0, kTowers}});
  while (!other.ended(0))
    for (int t = 0; t < 2; ++t) take_one(other, t, given);
  EXPECT_EQ(given.size(), 2U * 9);
  Feed feed(dataset, some_devices(2, true), {.towers_held = {2, kTowers}});
  take_one(feed, 2, given);
  take_one(feed, 3, given);
  const std::string state = feed.save();
  for (const int tower : {2, 3}) {
    const std::optional<Error> error =
        test::thrown_by([&] { static_cast<void>(feed.next(tower)); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::data_loss);
    EXPECT_FALSE(feed.next(tower));
    EXPECT_TRUE(feed.ended(tower));
  }
  // Who continues tries again, here or in one process.
  for (const auto& [count, first] : {std::pair(2, 2), std::pair(4, 0)}) {
    Feed again = Feed::restore(feed.save(), dataset, some_devices(count, true),
                               {.towers_held = {first, kTowers}});
    EXPECT_TRUE(test::thrown_by([&] { static_cast<void>(again.next(2)); }));
  }
}

/// Returns each tower's batches and errors until the end, from feeds that resume at `state`.
std::vector<Given> all_behind(const std::string& state, const Dataset& dataset,
                              const FeedOptions& options, int processes) {
  Job job(dataset, options, processes, {state});
  for (Feed& feed : job.feeds()) EXPECT_EQ(feed.stats().made_everywhere.empty(), processes == 1);
  std::vector<Given> given(kTowers);
  while (!job.ended()) {
    for (int t = 0; t < kTowers; ++t) {
      Given& mine = given[static_cast<std::size_t>(t)];
      if (test::thrown_by([&] { take_one(job.of(t), t, mine); })) mine.emplace_back("error");
    }
  }
  return given;
}

// Where an element failed in one process, batches are others than their numbers say.
TEST(DividedFeed, GoesOnBehindWhatFailedInOneProcess) {
  const test::TimeLimit limit(120);
  const auto fail = [](Element element) {
    if (element[0].item<std::int64_t>() == 13) throw Error(ErrorCode::data_loss, "thirteen");
    return element;
  };
  for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
    for (const EpochEnd end : {EpochEnd::drop, EpochEnd::wrap, EpochEnd::stop}) {
      for (const std::int64_t n : {24, 43}) {
        SCOPED_TRACE(name_of(mode) + ", " + name_of(end) + ", n " + std::to_string(n));
        const Dataset dataset =
            range(n).map(fail).batch(mode == FeedMode::split ? kTowers * kRows : kRows);
        FeedOptions options{.mode = mode, .end = end};
        options.run.epochs = kEpochs;
        Feed one(dataset, some_devices(kTowers, true), options);
        Given given;
        for (int failed = 0; failed < kTowers;) {
          for (int t = 0; t < kTowers; ++t)
            failed += test::thrown_by([&] { take_one(one, t, given); }) ? 1 : 0;
        }
        const std::string state = one.save();
        const std::vector<Given> expected = all_behind(state, dataset, options, 1);
        EXPECT_EQ(all_behind(state, dataset, options, 2), expected);
        EXPECT_EQ(all_behind(state, dataset, options, 4), expected);
      }
    }
  }
}

TEST(DividedFeed, KnowsFromAPositionThatElementsAreMissing) {
  const auto fail = [](Element element) {
    if (element[0].item<std::int64_t>() == 3) throw Error(ErrorCode::data_loss, "three");
    return element;
  };
  for (const bool bad : {false, true}) {
    const Dataset dataset = bad ? range(9).map(fail).batch(2) : range(9).batch(2);
    Iterator iterator = dataset.iterate({});
    for (int i = 0; i < 5; ++i) {  // of nine numbers the last batch is short
      EXPECT_EQ(lacks_elements(iterator.save(), compile(dataset)), bad && i > 1) << i;
      EXPECT_FALSE(iterator.next().is_end());
    }
  }
}

TEST(DividedFeed, LooksAtEachTowersDataset) {
  const auto odd = [](const Element& element) { return element[0].item<std::int64_t>() % 2 == 1; };
  std::vector<Dataset> datasets(kTowers, range(16).batch(kRows));
  datasets[2] = range(16).filter(odd).batch(kRows);
  const Feed feed(datasets, some_devices(2, true),
                  {.mode = FeedMode::sharded, .towers_held = {0, kTowers}});
  EXPECT_THAT(feed.stats().made_everywhere, testing::HasSubstr("filter[1]"));
}

TEST(DividedFeed, IsSavedBetweenTwoSteps) {
  const test::TimeLimit limit(60);
  const Dataset dataset = range(64).batch(kRows);
  const auto refused = [](const auto& what) {
    const std::optional<Error> error = test::thrown_by(what);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error->what(), testing::HasSubstr("given a step that others"));
  };
  Given given;
  const FeedOptions held{.towers_held = {0, kTowers}};
  Feed feed(dataset, some_devices(2, true), held);
  take_one(feed, 0, given);
  refused([&] { static_cast<void>(feed.save()); });
  take_one(feed, 1, given);
  EXPECT_NO_THROW(Feed::restore(feed.save(), dataset, some_devices(2, true), held));
  // A feed of all towers may be saved anywhere, for one of all towers.
  Feed whole(dataset, some_devices(kTowers, true));
  take_one(whole, 1, given);
  const std::string within = whole.save();
  refused([&] { Feed::restore(within, dataset, some_devices(2, true), held); });
  EXPECT_NO_THROW(Feed::restore(within, dataset, some_devices(kTowers, true)));
}

TEST(DividedFeed, LeavesTheMemoryToTheTowersHere) {
  constexpr std::uint64_t kBudget = 64 << 20;
  FeedOptions options{.mode = FeedMode::sharded, .towers_held = {3, 16}};
  options.run.memory_bytes = kBudget;
  const Feed one(range(64).batch(kRows), some_devices(1, true), options);
  EXPECT_GT(one.stats().run.memory.budget_bytes, kBudget * 9 / 10);
  const Feed two(range(64).batch(kRows), some_devices(2, true), options);
  EXPECT_LE(two.stats().run.memory.budget_bytes, kBudget / 2);
  EXPECT_GT(two.stats().run.memory.budget_bytes, kBudget * 9 / 20);
}

TEST(DividedFeed, RefusesWhatHasNoMeaning) {
  const Dataset dataset = range(64).batch(kRows);
  const auto refused = [&](FeedOptions options, int count, const char* what) {
    const std::optional<Error> error =
        test::thrown_by([&] { Feed(dataset, some_devices(count, true), options); });
    ASSERT_TRUE(error) << what;
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error->what(), testing::HasSubstr(what));
  };
  refused({.towers_held = {3, 4}}, 2, "2 towers from 3 on, of 4");
  refused({.towers_held = {-1, 4}}, 2, "2 towers from -1 on, of 4");
  refused({.in_turn = false, .towers_held = {0, 4}}, 2, "served in turn");
  Feed feed(dataset, some_devices(2, true), {.towers_held = {2, 4}});
  const std::optional<Error> error = test::thrown_by([&] { static_cast<void>(feed.next(1)); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::HasSubstr("tower 1 of 4 is another process's"));
  EXPECT_TRUE(test::thrown_by([&] { static_cast<void>(feed.epochs(1)); }));
  EXPECT_TRUE(test::thrown_by([&] { static_cast<void>(feed.taken(1)); }));
  EXPECT_EQ(feed.towers(), 2);
}

}  // namespace
}  // namespace penstock
