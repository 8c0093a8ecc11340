// One suite over feeds: every graph that makes batches, in every mode and with every end of an
// epoch, gives towers what a sequential run gives, whole or stopped anywhere and restored; or is
// refused by the names of the mode or end and of the stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <thread>
#include <tuple>

#include <penstock/plan.h>
#include <penstock/rng.h>

#include "tests/conformance/feed_graphs.h"
#include "tests/staging/take.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace {

using test::BatchKind;
using test::FeedGraph;
using test::Numbers;
using test::some_devices;

constexpr int kTowers = 3;
constexpr std::int64_t kRows = 2;
constexpr std::int64_t kFull = kTowers * kRows;
constexpr std::uint64_t kEpochs = 2;
constexpr unsigned kSeconds = 120;
constexpr std::size_t kSlotBytes = 4096;

std::string name_of(FeedMode mode) {
  return mode == FeedMode::split ? "split" : mode == FeedMode::sharded ? "sharded" : "per_tower";
}
std::string name_of(EpochEnd end) {
  return end == EpochEnd::drop   ? "drop"
         : end == EpochEnd::pad  ? "pad"
         : end == EpochEnd::wrap ? "wrap"
                                 : "stop";
}

/// A row as the bytes of all its components, or a batch that is one whole.
using Rows = std::vector<std::string>;
/// Of each epoch, of each step.
using Steps = std::vector<std::vector<Rows>>;

/// A component in host memory.
struct Values {
  std::int64_t rows = 0;
  std::string bytes;
};

Rows rows_of(const std::vector<Values>& components, std::int64_t valid, bool whole) {
  Rows rows;
  if (whole) {
    std::string all;
    for (const Values& values : components) all += std::to_string(values.rows) + values.bytes;
    rows.push_back(all);
    return rows;
  }
  for (std::int64_t row = 0; row < valid; ++row) {
    std::string& text = rows.emplace_back();
    for (const Values& values : components) {
      const std::size_t each = values.bytes.size() / static_cast<std::size_t>(values.rows);
      text += values.bytes.substr(static_cast<std::size_t>(row) * each, each);
    }
  }
  return rows;
}

Rows rows_of(const Element& batch, bool whole) {
  std::vector<Values> components;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Tensor dense = batch[i].clone();
    components.push_back(
        {dense.dim(0), std::string(reinterpret_cast<const char*>(dense.data()), dense.nbytes())});
  }
  return rows_of(components, batch.valid_rows >= 0 ? batch.valid_rows : batch[0].dim(0), whole);
}

Rows rows_of(const StagedBatch& batch, StreamView stream, bool whole) {
  std::vector<Values> components;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const DeviceTensor& tensor = batch.at(i);
    // Not on the heap: that may hand out the memory of a batch that was copied, and the checker
    // does not see that it was freed.
    thread_local std::array<char, kSlotBytes> landing;
    const std::span<char> bytes = std::span(landing).first(tensor.nbytes());
    stream.copy({bytes.data(), tensor.data, bytes.size()});
    stream.synchronize();
    components.push_back({tensor.shape[0], std::string(bytes.begin(), bytes.end())});
  }
  return rows_of(components, batch.valid_rows(), whole);
}

class Feeds : public testing::TestWithParam<std::tuple<FeedGraph, FeedMode, EpochEnd>> {
 protected:
  const FeedGraph graph_ = std::get<0>(GetParam());
  const FeedMode mode_ = std::get<1>(GetParam());
  const EpochEnd end_ = std::get<2>(GetParam());
  const bool whole_ = graph_.batches == BatchKind::wholes;
  const test::TimeLimit limit_{kSeconds};

  std::int64_t batch_rows() const { return mode_ == FeedMode::split ? kFull : kRows; }
  Dataset dataset(std::int64_t n) const { return graph_.build(n, batch_rows()); }
  FeedOptions options() const {
    FeedOptions options;
    options.mode = mode_;
    options.end = end_;
    options.max_bytes = kSlotBytes;
    options.run.epochs = kEpochs;
    options.run.threads = 2;
    options.run.seed = 3;
    return options;
  }

  /// The names that a refusal must have; none: there is a meaning.
  std::vector<std::string> refused_for() const {
    const bool uncounted = graph_.batches == BatchKind::varying || whole_;
    const bool full = graph_.batches == BatchKind::full;
    if (mode_ == FeedMode::sharded && !graph_.shards)
      return {"FeedMode::sharded", graph_.refuses.empty() ? graph_.stage : graph_.refuses};
    if (mode_ == FeedMode::split && uncounted) return {"FeedMode::split", graph_.stage};
    if (end_ == EpochEnd::pad && uncounted) return {"EpochEnd::pad", graph_.stage};
    if (end_ == EpochEnd::wrap && !full) return {"EpochEnd::wrap", graph_.stage};
    return {};
  }
  bool refused() const {
    const std::vector<std::string> names = refused_for();
    if (names.empty()) return false;
    const std::optional<Error> error =
        test::thrown_by([&] { Feed(dataset(8), some_devices(kTowers, true), options()); });
    EXPECT_TRUE(error);
    if (!error) return true;
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
    for (const std::string& name : names) EXPECT_THAT(error->what(), testing::HasSubstr(name));
    EXPECT_THAT(error->what(), testing::HasSubstr("use "));
    return true;
  }

  /// What an iterator gives: of each epoch, each batch.
  Steps sequential(std::int64_t n) const {
    RunOptions run = options().run;
    run.epochs = kEpochs + 1;
    Iterator iterator = dataset(n).iterate(run);
    Steps epochs;
    do {
      epochs.emplace_back();
      for (Next next = iterator.next(); next; next = iterator.next())
        epochs.back().push_back(rows_of(*next, whole_));
    } while (iterator.next_epoch());
    return epochs;
  }

  struct Expected {
    std::vector<std::vector<Rows>> towers;  ///< of each, each step
    std::size_t lost = 0;
  };
  /// What towers get of an epoch.
  Expected expected(const std::vector<Rows>& batches, const std::vector<Rows>& next) const;
  void deal_rest(const Rows& rest, const Rows& next, Expected& to) const;

  std::vector<std::vector<std::vector<Rows>>> take(Feed& feed) const {
    std::vector<std::vector<std::vector<Rows>>> taken(kTowers);
    std::vector<std::thread> threads;
    for (int t = 0; t < kTowers; ++t) {
      threads.emplace_back([&, t] {
        auto& mine = taken[static_cast<std::size_t>(t)];
        mine.resize(1);
        const Stream stream(feed.device(t).shared_from_this(), "tower");
        while (!feed.ended(t)) {
          std::optional<StagedBatch> batch = feed.next(t);
          if (!batch) {
            mine.emplace_back();
            continue;
          }
          batch->wait(stream);
          mine.back().push_back(rows_of(*batch, stream, whole_));
        }
        mine.pop_back();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return taken;
  }
};

Rows cut(const Rows& rows, std::size_t first, std::size_t count) {
  const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(std::min(first, rows.size()));
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(first + count, rows.size()));
  return {begin, end};
}

void Feeds::deal_rest(const Rows& rest, const Rows& next, Expected& to) const {
  if (rest.empty()) return;
  if (end_ == EpochEnd::drop || (end_ == EpochEnd::stop && rest.size() < kTowers) ||
      (end_ == EpochEnd::wrap && next.empty())) {
    to.lost += rest.size();
    return;
  }
  std::size_t first = 0;
  std::size_t wrapped = 0;
  for (std::size_t t = 0; t < kTowers; ++t) {
    const std::size_t count = (rest.size() - t + kTowers - 1) / kTowers;
    Rows share = cut(rest, first, count);
    first += count;
    while (end_ == EpochEnd::wrap && share.size() < kRows)
      share.push_back(next[wrapped++ % next.size()]);
    to.towers[t].push_back(std::move(share));
  }
}

Feeds::Expected Feeds::expected(const std::vector<Rows>& batches,
                                const std::vector<Rows>& next) const {
  Expected result{std::vector<std::vector<Rows>>(kTowers)};
  const std::size_t step = mode_ == FeedMode::split ? 1 : kTowers;
  Rows wrapped;  // the next epoch's first step
  for (std::size_t i = 0; i < std::min(step, next.size()); ++i)
    wrapped.insert(wrapped.end(), next[i].begin(), next[i].end());
  const bool by_rows = graph_.batches == BatchKind::full || mode_ == FeedMode::split;
  for (std::size_t at = 0; at < batches.size(); at += step) {
    Rows all;
    const std::size_t count = std::min(step, batches.size() - at);
    for (std::size_t i = 0; i < count; ++i)
      all.insert(all.end(), batches[at + i].begin(), batches[at + i].end());
    const bool full = all.size() == kFull ||
                      (graph_.batches != BatchKind::full && graph_.batches != BatchKind::ragged &&
                       mode_ != FeedMode::split && count == step) ||
                      (graph_.batches == BatchKind::padded && count == step);
    if (full || (!by_rows && graph_.batches == BatchKind::ragged && count == step &&
                 end_ != EpochEnd::drop)) {
      for (std::size_t t = 0; t < kTowers; ++t) {
        result.towers[t].push_back(mode_ == FeedMode::split ? cut(all, t * kRows, kRows)
                                                            : batches[at + t]);
      }
    } else if (by_rows || (graph_.batches == BatchKind::shorter && end_ == EpochEnd::pad &&
                           graph_.same_rows)) {
      deal_rest(all, wrapped, result);
    } else if (end_ == EpochEnd::pad && !all.empty()) {
      for (std::size_t t = 0; t < kTowers; ++t)
        result.towers[t].push_back(t < count ? batches[at + t] : Rows());
    } else if (end_ == EpochEnd::stop && graph_.batches == BatchKind::shorter && graph_.same_rows) {
      deal_rest(all, wrapped, result);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        for (const std::string& row : batches[at + i]) {
          static_cast<void>(row);
          ++result.lost;
        }
      }
    }
  }
  return result;
}

TEST_P(Feeds, GiveWhatASequentialRunGives) {
  if (refused()) return;
  for (const std::int64_t n : {0, 1, 5, 24, 31}) {
    const Steps sequence = sequential(n);
    for (const bool unified : {false, true}) {
      SCOPED_TRACE("n " + std::to_string(n) + (unified ? ", unified" : ""));
      Feed feed(dataset(n), some_devices(kTowers, unified), options());
      const auto taken = take(feed);
      std::size_t lost = 0;
      for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
        for (const auto& tower : taken) {
          ASSERT_EQ(tower.size(), kEpochs);
          ASSERT_EQ(tower[epoch].size(), taken[0][epoch].size());
        }
        if (mode_ != FeedMode::sharded) {
          const Expected towers = expected(sequence[epoch], sequence[epoch + 1]);
          lost += towers.lost;
          for (std::size_t t = 0; t < kTowers; ++t)
            EXPECT_EQ(taken[t][epoch], towers.towers[t]) << "epoch " << epoch << ", tower " << t;
        } else if (graph_.same_rows) {
          // Every row once; of the rest those that are lost, or twice those of the next epoch.
          std::map<std::string, int> times;
          std::size_t rows = 0;
          for (const Rows& batch : sequence[epoch]) {
            rows += batch.size();
            for (const std::string& row : batch) ++times[row];
          }
          std::size_t given = 0;
          for (const auto& tower : taken) {
            for (const Rows& batch : tower[epoch]) {
              given += batch.size();
              for (const std::string& row : batch) --times[row];
            }
          }
          const std::size_t rest = rows % kFull;
          const bool left = rest > 0 && graph_.batches == BatchKind::full &&
                            (end_ == EpochEnd::drop || (end_ == EpochEnd::stop && rest < kTowers));
          lost += left ? rest : 0;
          EXPECT_EQ(given, left                                 ? rows - rest
                           : end_ == EpochEnd::wrap && rest > 0 ? rows - rest + kFull
                                                                : rows);
          for (const auto& [row, missing] : times) {
            EXPECT_LE(missing, left ? 1 : 0);
            if (end_ != EpochEnd::wrap) {
              EXPECT_GE(missing, 0);
            }
          }
        }
      }
      if (graph_.same_rows) {
        EXPECT_EQ(feed.stats().lost, lost);
      }
      EXPECT_FALSE(feed.next(0));
      for (int t = 0; t < kTowers && !unified; ++t)
        for (const Hazard& hazard : static_cast<HostDevice&>(feed.device(t)).hazards())
          ADD_FAILURE() << "tower " << t << ": " << hazard.to_string();
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
      numbers = test::read<std::int64_t>(stream, (*batch)["value"]);
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
      take_some(feed, parts, rng.below(17), rng);
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

}  // namespace
}  // namespace penstock
