// What a run says of itself and keeps to: guarantees, audits, other numbers of consumers, retries,
// quarantine, padding.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <set>
#include <sstream>
#include <thread>

#include <sys/resource.h>

#include <penstock/sources.h>

#include "pipeline/engine/quarantine.h"
#include "pipeline/io/fault.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"
#include "tests/support/log_capture.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"

namespace penstock {
namespace {

using test::failing_at;
using test::numbers;
using test::stream;
using testing::ElementsAre;
using testing::HasSubstr;

std::int64_t x_of(const Element& element) {
  return element["x"].item<std::int64_t>();
}

Dataset noisy(const Dataset& input) {
  return input.map([](Element element, Rng& rng) {
    element.set("x", Tensor::scalar<std::int64_t>(x_of(element) * 1000 +
                                                  static_cast<std::int64_t>(rng.below(1000))));
    return element;
  });
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return "not refused";
}

TEST(Guarantee, IsNamedWithItsPrice) {
  const auto keep = [](const Element&) { return true; };
  struct Case {
    Dataset dataset;
    std::string says;
  };
  for (const Case& test : std::vector<Case>{
           {numbers(9).shuffle().batch(2), "restored: EXACT,.*costs position"},
           {numbers(9).shuffle({.buffer = 3}), "restored: EXACT,.*costs order"},
           {stream({1, 2}).shuffle({.buffer = 3}), "restored: EXACT,.*costs work"},
           {noisy(numbers(9)).batch(2), "restored: EXACT_IF_DETERMINISTIC.*costs position"},
           {noisy(numbers(9)).filter(keep), "EXACT_IF_DETERMINISTIC.*costs position"},
           {numbers(9).cache(), "costs work"},
           {numbers(9).shuffle().shard(2, 0), "another number of shards: goes on"},
           {numbers(9).shard(2, 0).shuffle(), "another number of shards: refused, shuffle stands"},
           {numbers(9).shard(2, 0, {.contiguous = true}), "refused, its shards are contiguous"},
       }) {
    EXPECT_THAT(test.dataset.explain(), testing::ContainsRegex(test.says));
  }
  EXPECT_EQ(numbers(3).guarantee(), Guarantee::exact);
  EXPECT_EQ(noisy(numbers(3)).guarantee(), Guarantee::exact_if_deterministic);
}

TEST(Audit, SaysWhatEachEpochWas) {
  const Dataset dataset = failing_at(numbers(20), 7).batch(4);
  test::LogCapture log;
  RunOptions options{.epochs = 2, .on_error = OnError::skip};
  // Stopped and restored in the middle of either epoch, the audits stay the same.
  for (const int stop : {-1, 0, 2, 5, 7, 9}) {
    Iterator iterator = dataset.iterate(options);
    std::vector<EpochStats> epochs;
    int batches = 0;
    do {
      for (;;) {
        if (batches++ == stop) {
          const auto before = iterator.stats().epochs;
          epochs.insert(epochs.end(), before.begin(), before.end());
          Iterator next = dataset.restore(iterator.save(), options);
          iterator = std::move(next);
        }
        if (iterator.next().is_end()) break;
      }
    } while (iterator.next_epoch());
    const Stats stats = iterator.stats();
    epochs.insert(epochs.end(), stats.epochs.begin(), stats.epochs.end());
    ASSERT_EQ(epochs.size(), 2U) << stop;
    for (const EpochStats& epoch : epochs) {
      EXPECT_EQ(epoch.elements, 19U) << stop;
      EXPECT_EQ(epoch.batches, 5U) << stop;
      EXPECT_EQ(epoch.skipped, 1U) << stop;
      EXPECT_EQ(epoch.expected, 20) << stop;
      EXPECT_EQ(epoch.missing, 0) << stop;
      EXPECT_EQ(epoch.repeated, 0) << stop;
    }
    EXPECT_EQ(stats.errors.count, 2U) << "stopped behind " << stop;
  }
  EXPECT_EQ(log.count("epoch 1: 19 elements in 5 batches, 1 skipped, 0 missing, 0 repeated; "
                      "EXACT_IF_DETERMINISTIC"),
            6U);
}

TEST(Audit, CountsWhatIsMissingWhereTheGraphTells) {
  const auto even = [](const Element& element) { return x_of(element) % 2 == 0; };
  struct Case {
    Dataset dataset;
    std::int64_t expected, missing;
  };
  for (const Case& test : std::vector<Case>{
           {numbers(20), 20, 0},
           {numbers(20).shuffle().shard(3, 0).batch(4), 7, 0},
           {numbers(20).batch(8, {.drop_remainder = true}), 16, 0},
           {numbers(20).repeat(2).batch(8).prefetch(2), 40, 0},
           {numbers(10).batch(4).pad_batches(), 10, 0},
           {failing_at(numbers(20), 7), 20, 1},           // the error surfaced
           {failing_at(numbers(20), 7).batch(4), 20, 4},  // and cost its batch up to there
           {failing_at(numbers(20), 7).ignore_errors(), -1, -1},
           {numbers(20).filter(even), -1, -1},
           {numbers(20).batch(4).unbatch(), -1, -1}}) {
    Iterator iterator = test.dataset.iterate();
    while (!iterator.next().is_end()) {
    }
    const EpochStats epoch = iterator.stats().epochs.at(0);
    EXPECT_EQ(epoch.expected, test.expected) << test.dataset.explain();
    EXPECT_EQ(epoch.missing, test.missing) << test.dataset.explain();
    EXPECT_EQ(epoch.repeated, test.expected < 0 ? -1 : 0);
  }
}

/// What `skip` passed over before a stop, and meets again when the work is redone, counts once.
TEST(Audit, RedoneWorkCountsItsErrorsOnce) {
  const auto pairs = [](const Dataset& input) {
    return std::vector<Dataset>{
        input.batch(4),
        input.shuffle({.buffer = 5}).batch(4),
        input.filter([](const Element&) { return true; }).batch(3),
        input.window(3),
        input.window(3, {.shift = 1}).batch(2),
        input.group_by_window([](const Element& e) { return x_of(e) % 3; }, {.size = 2}),
        input.batch(4).unbatch().batch(3),
        input.batch(4).rebatch(3),
        input.unique().batch(3),
        input.cache().repeat(2).batch(4),
        input.ragged_batch(4),
        input.filter([](const Element&) { return true; }).shuffle({.buffer = 5}).batch(4),
        input.interleave(
            [](const Element& e) {
              return numbers({x_of(e), x_of(e)});
            },
            test::x_spec(), {.cycle = 3}),
    };
  };
  const Dataset bad = failing_at(failing_at(failing_at(numbers(30), 4), 11), 22);
  const Dataset late = failing_at(failing_at(stream(test::values(numbers(30))), 4), 22);
  for (const Dataset& input : {bad, late}) {
    for (const Dataset& dataset : pairs(input)) {
      const RunOptions options{.seed = 2, .epochs = 2, .threads = 2, .on_error = OnError::skip};
      const auto run = [&](int stop) {
        Iterator iterator = dataset.iterate(options);
        int count = 0;
        do {
          for (;;) {
            if (count++ == stop) {
              Iterator next = dataset.restore(iterator.save(), options);
              iterator = std::move(next);
            }
            if (iterator.next().is_end()) break;
          }
        } while (iterator.next_epoch());
        const Stats stats = iterator.stats();
        std::vector<std::uint64_t> counts{stats.errors.count, stats.elements};
        counts.push_back(stats.epochs.back().skipped);
        return counts;
      };
      const auto whole = run(-1);
      for (int stop = 0; stop < 24; ++stop) {
        EXPECT_EQ(run(stop), whole) << dataset.explain() << "stopped behind " << stop;
      }
    }
  }
}

// Global order: step s of N consumers of batch b is elements s*N*b to (s+1)*N*b.
TEST(Elastic, GoesOnWithAnotherNumberOfConsumersInTheSameOrder) {
  constexpr std::int64_t kSize = 240;
  const auto graphs = std::vector<std::function<Dataset(int, int)>>{
      [](int count, int index) {
        return noisy(numbers(kSize).shuffle().shard(count, index)).batch(2);
      },
      [](int count, int index) {
        return noisy(numbers(kSize).shuffle({.buffer = 17}).shard(count, index))
            .batch(2)
            .prefetch(2);
      },
      [](int count, int index) {
        return numbers(kSize / 2).shuffle().repeat(2).shard(count, index);
      },
  };
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    const std::int64_t rows = g == 2 ? 1 : 2;
    const RunOptions options{.seed = 9, .epochs = 2, .threads = 2};
    for (const auto& [before, after] :
         std::vector<std::pair<int, int>>{{1, 3}, {4, 2}, {2, 3}, {3, 1}, {3, 3}}) {
      for (const int steps : {0, 1, 7}) {
        const auto take = [&](Iterator& iterator, int step, int count, int index,
                              std::vector<std::int64_t>& order, std::int64_t base) {
          const std::vector<std::int64_t> got =
              iterator.next().value()["x"].to_vector<std::int64_t>();
          for (std::int64_t j = 0; j < rows; ++j) {
            const std::int64_t at = base + index + count * (step * rows + j);
            if (at < kSize) order[static_cast<std::size_t>(at)] = got[static_cast<std::size_t>(j)];
          }
        };
        std::vector<std::int64_t> whole(kSize, -1);
        Iterator one = graphs[g](1, 0).iterate(options);
        for (int step = 0; step < kSize / rows; ++step) take(one, step, 1, 0, whole, 0);

        std::vector<std::int64_t> order(kSize, -1);
        std::vector<std::string> states;
        for (int index = before - 1; index >= 0; --index) {
          Iterator iterator = graphs[g](before, index).iterate(options);
          for (int step = 0; step < steps; ++step) take(iterator, step, before, index, order, 0);
          states.push_back(iterator.save());
        }
        const std::int64_t base = before * steps * rows;
        for (int index = 0; index < after; ++index) {
          Iterator iterator = graphs[g](after, index).restore(states, options);
          int step = 0;
          for (; base + index + after * (step + 1) * rows <= kSize; ++step) {
            // Restored again on the way: the new position is as good as the old.
            if (step == 3) iterator = graphs[g](after, index).restore(iterator.save(), options);
            take(iterator, step, after, index, order, base);
          }
          ASSERT_TRUE(iterator.next_epoch());
          // The next epoch is divided as if it had always been so.
          Iterator fresh = graphs[g](after, index).iterate(options);
          ASSERT_TRUE(fresh.next_epoch());
          EXPECT_EQ(iterator.next().value()["x"].to_vector<std::int64_t>(),
                    fresh.next().value()["x"].to_vector<std::int64_t>());
        }
        std::size_t same = 0;
        for (std::size_t i = 0; i < order.size(); ++i) same += order[i] == whole[i] ? 1 : 0;
        // What is left of the last, short batches was not asked for above.
        EXPECT_GE(same, static_cast<std::size_t>(kSize - after * rows))
            << g << ": " << before << " to " << after << " behind " << steps;
      }
    }
  }
}

TEST(Elastic, RefusesWhatHasNoCommonOrder) {
  const auto graph = [](int count, int index) { return numbers(50).shuffle().shard(count, index); };
  const auto state = [](const Dataset& dataset, int delivered) {
    Iterator iterator = dataset.iterate({.seed = 1});
    for (int i = 0; i < delivered; ++i) (void)iterator.next();
    return iterator.save();
  };
  const std::string zero = state(graph(2, 0), 3);
  const std::string one = state(graph(2, 1), 3);
  EXPECT_THAT(refusal([&] { (void)graph(3, 0).restore(zero); }),
              HasSubstr("shard[2] differs: it was shard 0 of 2, not 0 of 3"));
  EXPECT_THAT(refusal([&] { (void)graph(2, 1).restore(zero); }), HasSubstr("shard 0 of 2, not 1"));
  using States = std::vector<std::string>;
  EXPECT_THAT(refusal([&] { (void)graph(3, 0).restore(States{zero}); }),
              HasSubstr("1 states of 2 consumers"));
  EXPECT_THAT(refusal([&] {
                (void)graph(3, 0).restore(States{zero, zero});
              }),
              HasSubstr("state 1 is of shard 0 of 2"));
  EXPECT_THAT(refusal([&] {
                (void)graph(3, 0).restore(States{zero, state(graph(2, 1), 4)});
              }),
              HasSubstr("behind 3 elements of epoch 0, and state 1 behind 4"));
  EXPECT_THAT(refusal([&] { (void)graph(3, 0).restore(States{}); }), HasSubstr("no states"));
  const auto early = [](int count, int index) {
    return numbers(50).shard(count, index).shuffle().batch(2);
  };
  EXPECT_THAT(refusal([&] {
                (void)early(3, 0).restore(States{state(early(2, 0), 1), state(early(2, 1), 1)});
              }),
              HasSubstr("shuffle stands behind shard"));
  EXPECT_THAT(refusal([&] { (void)early(3, 0).restore(state(early(2, 0), 1)); }),
              HasSubstr("can't go on with another number of consumers: shuffle stands behind"));
  EXPECT_NO_THROW((void)graph(3, 0).restore(States{zero, one}));
}

TEST(Unordered, EachElementComesOnceAlsoWhenRestored) {
  const auto slow = [](const Dataset& input) {
    return input.map(
        [](Element element) {
          thread_local std::uint32_t draw = 12345;
          draw = draw * 1664525 + 1013904223;
          std::this_thread::sleep_for(std::chrono::microseconds((draw >> 16) % 200));
          return element;
        },
        {.name = "slow", .ordered = false});
  };
  const auto even = [](const Element& e) { return x_of(e) % 2 == 0; };
  const std::vector<Dataset> graphs{slow(numbers(300)), slow(numbers(300)).batch(8),
                                    slow(numbers(600)).filter(even),
                                    noisy(slow(numbers(300))).batch(7).prefetch(3),
                                    slow(stream(test::values(numbers(300)))).batch(3)};
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    for (const int stop : {1, 5, 13, 22, 31}) {
      std::multiset<std::int64_t> seen;
      const auto take = [&](const Element& element) {
        for (const std::int64_t x : element["x"].to_vector<std::int64_t>()) seen.insert(x);
      };
      Iterator iterator = graphs[g].iterate({.threads = 3});
      for (int i = 0; i < stop; ++i) take(iterator.next().value());
      std::string state = iterator.save();
      EXPECT_LE(state.size(), 4096U + 4 * 600);
      Iterator second = graphs[g].restore(state, {.threads = 2});
      for (int i = 0; i < 3; ++i) take(second.next().value());
      Iterator third = graphs[g].restore(second.save(), {.threads = 3});
      for (Next next = third.next(); !next.is_end(); next = third.next()) take(*next);
      EXPECT_EQ(seen.size(), 300U) << g << " behind " << stop;
      EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 300U)
          << g << " behind " << stop;
    }
  }
}

TEST(Unordered, RefusesToSaveWhatWouldLoseElements) {
  const Dataset free = numbers(20).map([](Element e) { return e; }, {.ordered = false});
  for (const Dataset& dataset :
       {free.shuffle({.buffer = 4}), free.batch(2).unbatch(), free.cache().batch(2)}) {
    Iterator iterator = dataset.iterate();
    (void)iterator.next();
    EXPECT_THAT(refusal([&] { (void)iterator.save(); }), HasSubstr("behind an unordered map"));
    EXPECT_THAT(dataset.explain(), HasSubstr("can't be saved"));
  }
}

/// Three shards of ten records in memory; every one failed read at a time.
struct Files {
  Files() {
    std::vector<std::pair<std::string, std::string>> files;
    for (int shard = 0; shard < 3; ++shard) {
      std::vector<std::string> records;
      for (int i = 0; i < 10; ++i)
        records.push_back(std::to_string(10 * shard + i) + test::noise(30));
      files.emplace_back("part-" + std::to_string(shard), test::tfrecords_of(records));
    }
    inner = make_memory_file_system(files);
  }
  FileSystemPtr inner;
};

std::string all_of(const Dataset& dataset, const RunOptions& options, std::vector<Error>& errors) {
  std::string text;
  Iterator iterator = dataset.iterate(options);
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    if (next.is_error()) {
      errors.push_back(next.error());
    } else {
      for (std::int64_t i = 0; i < next->valid_rows; ++i) text += (*next)["record"].bytes_at(i);
    }
  }
  return text;
}

/// One read fails, whichever it is: a run without retries gives the error its place, one with
/// retries does not show it.
TEST(Retry, HidesReadsThatFailForAMoment) {
  const Files files;
  TFRecordOptions source{};
  source.index_folder = "-";
  source.files = files.inner;
  std::vector<Error> errors;
  const std::string whole = all_of(tfrecord({"part-*"}, source).batch(3), {}, errors);
  ASSERT_TRUE(errors.empty());
  int injected = 0;
  int surfaced = 0;
  int reread = 0;  // a read of several records is done again one by one
  int at_start = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    bool started = false;
    const auto run = [&](OnError on_error) {
      const auto faults =
          std::make_shared<FaultFileSystem>(files.inner, FaultOptions{.fail_nth = nth});
      source.files = faults;
      errors.clear();
      const Dataset dataset = tfrecord({"part-*"}, source).batch(3);
      started = faults->injected() == 0;
      const std::string text = all_of(dataset, {.threads = 1, .on_error = on_error}, errors);
      return std::pair(text, faults->injected());
    };
    const auto [text, faults] = run(OnError::fail);
    if (faults == 0) break;
    for (const Error& error : errors) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
      EXPECT_THAT(error.where().shard, testing::StartsWith("part-"));
      EXPECT_GE(error.where().offset, 0);
      EXPECT_GE(error.where().index, 0);
    }
    if (!started) {  // while the dataset was built, reads are done again in any case
      ++at_start;
      EXPECT_EQ(errors.size(), 0U) << nth;
      EXPECT_TRUE(text == whole) << nth;
      continue;
    }
    ++injected;
    (errors.empty() ? reread : surfaced) += 1;
    EXPECT_TRUE(errors.empty() == (text == whole)) << nth;
    EXPECT_LE(errors.size(), 1U) << nth;
    EXPECT_TRUE(run(OnError::retry).first == whole) << nth;
    EXPECT_TRUE(errors.empty()) << nth;
  }
  EXPECT_GT(surfaced, 0);
  std::printf(
      "figure: F1: %d faults while running: %d surfaced with path and offset, %d gone when "
      "read again alone; %d at the start, all hidden; with retry none shows; 0 hangs\n",
      injected, surfaced, reread, at_start);
}

TEST(Retry, HidesManyFaultsInIndexedSourcesAndStreams) {
  const test::TempFolder folder;
  std::vector<std::string> records;
  for (int i = 0; i < 3000; ++i) records.push_back(std::to_string(i) + test::noise(300, i + 1U));
  folder.write("plain.tfrecord", test::tfrecords_of(records));
  folder.write("packed.tfrecord", test::gzip(test::tfrecords_of(records)));
  for (const char* name : {"plain.tfrecord", "packed.tfrecord"}) {
    const auto faults = std::make_shared<FaultFileSystem>(
        make_file_system("pread"), FaultOptions{.seed = 5, .fail_share = 0.3});
    TFRecordOptions source{};
    source.index_folder = folder.path();
    std::vector<Error> errors;
    const std::string whole = all_of(tfrecord({folder / name}, source).batch(7), {}, errors);
    source.files = faults;
    std::optional<Dataset> dataset;
    while (!dataset) {  // with a whole index, which the first run kept
      try {
        dataset = tfrecord({folder / name}, source).batch(7);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::unavailable);
      }
    }
    const RunOptions options{.on_error = OnError::retry, .retries = 20, .retry_ms = 0};
    EXPECT_TRUE(all_of(*dataset, options, errors) == whole) << name;
    EXPECT_EQ(errors.size(), 0U) << name;
    EXPECT_GE(faults->injected(), 3U) << name;
  }
}

TEST(Retry, GivesUpByPolicyAfterItsTries) {
  std::atomic<int> reads{0};
  class Unwell final : public Source {
   public:
    explicit Unwell(std::atomic<int>& reads) : reads_(reads) {}
    std::string name() const override { return "unwell"; }
    void describe(Description&) const override {}
    Spec spec() const override { return test::x_spec(); }
    std::optional<std::uint64_t> size() const override { return 10; }
    bool blocking() const override { return true; }
    void read(std::span<ReadItem> items, ReadContext&) const override {
      for (ReadItem& item : items) {
        item.element = test::x_element(static_cast<std::int64_t>(item.index));
        if (item.index != 4) continue;
        ++reads_;
        item.status = Status(ErrorCode::unavailable, "not now");
      }
    }

   private:
    std::atomic<int>& reads_;
  };
  const Dataset dataset(std::make_shared<Unwell>(reads));
  for (const auto& [on_error, retries, expected_reads, expected] :
       std::vector<std::tuple<OnError, int, int, std::string>>{
           {OnError::fail, -1, 1, "0 1 2 3 E 5 6 7 8 9"},
           {OnError::retry, -1, 5, "0 1 2 3 E 5 6 7 8 9"},
           {OnError::retry, 2, 3, "0 1 2 3 E 5 6 7 8 9"},
           {OnError::skip, 2, 3, "0 1 2 3 5 6 7 8 9"},
           {OnError::skip, -1, 1, "0 1 2 3 5 6 7 8 9"}}) {
    reads = 0;
    EXPECT_EQ(test::run(dataset, {.on_error = on_error, .retries = retries, .retry_ms = 1}),
              expected);
    EXPECT_EQ(reads, expected_reads);
  }
  // A long wait is ended by cancelling.
  Iterator iterator =
      dataset.iterate({.on_error = OnError::retry, .retries = 1000, .retry_ms = 1000});
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    iterator.cancel();
  });
  const auto start = std::chrono::steady_clock::now();
  while (!iterator.next().is_error()) {
  }
  canceller.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

TEST(Quarantine, NamesEachBadElementOnce) {
  const test::TempFolder folder;
  const std::string path = folder / "bad.jsonl";
  const Files files;
  TFRecordOptions source{};
  source.index_folder = "-";
  source.files = files.inner;
  const Dataset dataset = tfrecord({"part-*"}, source)
                              .map(
                                  [](Element element) {
                                    const auto text = element["record"].bytes_at();
                                    if (text[0] == '1')
                                      throw std::runtime_error("it \"begins\"\nwith 1");
                                    return element;
                                  },
                                  {.name = "picky"})
                              .shuffle()
                              .batch(4);
  const RunOptions options{.epochs = 3, .on_error = OnError::skip, .quarantine = path};
  std::string state;
  {
    Iterator iterator = dataset.iterate(options);
    for (int i = 0; i < 2; ++i) (void)iterator.next();
    state = iterator.save();
  }
  Iterator resumed = dataset.restore(state, options);
  do {
    while (!resumed.next().is_end()) {
    }
  } while (resumed.next_epoch());
  std::istringstream lines(test::read_file(path));
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(seen.insert(line).second) << line;
    EXPECT_THAT(line, testing::MatchesRegex(
                          R"(\{"shard":"part-[01]","offset":[0-9]+,"length":[0-9]+,"index":[0-9]+,)"
                          R"("stage":"map\[1\] picky","code":"user",)"
                          R"("cause":"it \\"begins\\"\\u000awith 1"\})"));
  }
  EXPECT_EQ(seen.size(), 11U);  // 1, 10 to 19
}

TEST(Quarantine, GoesOnWithoutItsFileWhenTheDiskIsFull) {
  const test::TempFolder folder;
  test::LogCapture log;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{10, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<std::int64_t> values = test::values(
      failing_at(numbers(20), 7), {.on_error = OnError::skip, .quarantine = folder / "bad.jsonl"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(values.size(), 19U);
  EXPECT_EQ(log.count("the quarantine goes on without its file"), 1U);
}

TEST(Quarantine, WritesSoundJson) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01\x7f"), "\"a\\\"b\\\\c\\u000a\\u0001\x7f\"");
  EXPECT_EQ(json_string("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  for (const char* bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_THAT(json_string(bad), HasSubstr("\xef\xbf\xbd")) << bad;
}

TEST(PadBatches, GivesEveryShardAsManyFullBatches) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 24, 25}) {
    for (const int shards : {1, 2, 3}) {
      for (const int bad : {0, 3}) {
        std::set<std::size_t> counts;
        std::multiset<std::int64_t> seen;
        for (int index = 0; index < shards; ++index) {
          Dataset elements = numbers(n).shuffle().shard(shards, index);
          // Every third element of the first shard is bad.
          if (bad > 0 && index == 0) {
            elements = elements.map([](Element element) {
              if (x_of(element) % 3 == 0) throw std::runtime_error("bad");
              return element;
            });
          }
          const Dataset dataset = elements.batch(4).pad_batches();
          EXPECT_EQ(dataset.spec().to_string(), "{x: i64 [4]}");
          const RunOptions options{.seed = 3, .on_error = OnError::skip};
          Iterator iterator = dataset.iterate(options);
          std::size_t batches = 0;
          std::uint64_t padding = 0;
          for (;; ++batches) {
            iterator = dataset.restore(iterator.save(), options);  // at every position
            Next next = iterator.next();
            if (next.is_end()) break;
            ASSERT_TRUE(next.has_value());
            EXPECT_EQ((*next)["x"].shape(), Shape({4}));
            const auto values = (*next)["x"].to_vector<std::int64_t>();
            for (std::size_t i = 0; i < 4; ++i) {
              if (static_cast<std::int64_t>(i) < next->valid_rows) {
                seen.insert(values[i]);
              } else {
                EXPECT_EQ(values[i], 0);
                ++padding;
              }
            }
          }
          counts.insert(batches);
          EXPECT_EQ(dataset.cardinality(), static_cast<std::int64_t>(batches));
          if (batches > 0) {
            EXPECT_EQ(iterator.stats().epochs.back().padded_rows, padding);
          }
        }
        EXPECT_EQ(counts.size(), 1U) << n << " in " << shards;
        if (bad == 0) {
          EXPECT_EQ(seen.size(), static_cast<std::size_t>(n));
        }
      }
    }
  }
  EXPECT_THAT(refusal([] { (void)numbers(4).pad_batches(); }), HasSubstr("makes none"));
  EXPECT_THAT(refusal([] { (void)numbers(4).repeat().batch(2).pad_batches(); }),
              HasSubstr("infinitely many"));
}

TEST(Figures, ResumingFarInDecodesNothingAgain) {
  constexpr std::int64_t kSize = 20'000'000;
  std::vector<bool> delivered(kSize);
  std::atomic<bool> counting{false};
  std::atomic<std::uint64_t> decodes{0};
  std::atomic<std::uint64_t> decoded_again{0};
  std::atomic<std::int64_t> first_ns{0};
  const auto decode = [&](Element element) {
    if (!counting) return element;
    if (decodes.fetch_add(1) == 0) {
      first_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    }
    const auto value = static_cast<std::size_t>(element["value"].item<std::int64_t>());
    decoded_again += delivered[value] ? 1 : 0;
    return element;
  };
  struct Case {
    const char* name;
    Dataset order;
    std::uint64_t position;
    int most_ms;
  };
  for (const Case& test :
       std::vector<Case>{{"element 10,000,000 of an indexed source, perfect shuffle",
                          range(kSize).shuffle(), 10'000'000, 100},
                         {"element 1,000,000 behind shuffle(10000)",
                          range(kSize).shuffle({.buffer = 10'000}), 1'000'000, 1000}}) {
    const Dataset graph = test.order.map(decode, {.name = "decode"}).batch(1000);
    std::fill(delivered.begin(), delivered.end(), false);
    std::string state;
    std::vector<std::int64_t> expected;
    {
      Iterator run = graph.iterate({.seed = 4, .threads = 2});
      for (std::uint64_t i = 0; i < test.position; i += 1000) {
        const Element batch = run.next().value();
        for (const std::int64_t value : batch["value"].values<std::int64_t>()) {
          delivered[static_cast<std::size_t>(value)] = true;
        }
      }
      state = run.save();
      expected = run.next().value()["value"].to_vector<std::int64_t>();
    }
    decodes = 0;
    counting = true;
    const auto start = std::chrono::steady_clock::now();
    {
      Iterator resumed = graph.restore(state, {.threads = 2});
      EXPECT_EQ(resumed.next().value()["value"].to_vector<std::int64_t>(), expected);
    }
    counting = false;
    const double ms = 1e-6 * static_cast<double>(first_ns - start.time_since_epoch().count());
    EXPECT_LE(ms, 10 * test.most_ms) << test.name;  // a busy machine; the figure is the claim
    EXPECT_GE(decodes, 1000U);
    EXPECT_EQ(decoded_again, 0U) << test.name;
    EXPECT_LE(state.size(), 4096U);
    std::printf(
        "figure: resume at %s: %.2f ms to the first decode, %d earlier decodes, state %zu "
        "bytes\n",
        test.name, ms, static_cast<int>(decoded_again), state.size());
  }
}

}  // namespace
}  // namespace penstock
