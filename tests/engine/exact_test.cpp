// Where a run may continue: with another number of consumers, behind an unordered map, far in, and
// in shards that run short.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <penstock/sources.h>

#include "tests/support/noisy.h"
#include "tests/support/numbers.h"

namespace penstock {
namespace exact_test {

using test::noisy;
using test::numbers;
using test::stream;
using testing::HasSubstr;

std::int64_t x_of(const Element& element) {
  return element["x"].item<std::int64_t>();
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
              HasSubstr("after 3 elements of epoch 0, but state 1 after 4"));
  EXPECT_THAT(refusal([&] { (void)graph(3, 0).restore(States{}); }), HasSubstr("no states"));
  const auto early = [](int count, int index) {
    return numbers(50).shard(count, index).shuffle().batch(2);
  };
  EXPECT_THAT(refusal([&] {
                (void)early(3, 0).restore(States{state(early(2, 0), 1), state(early(2, 1), 1)});
              }),
              HasSubstr("shuffle follows shard"));
  EXPECT_THAT(refusal([&] { (void)early(3, 0).restore(state(early(2, 0), 1)); }),
              HasSubstr("can't resume with another number of consumers: shuffle follows"));
  EXPECT_NO_THROW((void)graph(3, 0).restore(States{zero, one}));
}

TEST(Unordered, ElementsAcrossRestores) {
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
       {free.shuffle({.buffer = 4}), free.batch(2).unbatch(), free.cache().batch(2), free.take(10),
        free.skip(10).batch(2), free.shard(2, 0)}) {
    Iterator iterator = dataset.iterate();
    (void)iterator.next();
    EXPECT_THAT(refusal([&] { (void)iterator.save(); }), HasSubstr("follows an unordered map"));
    EXPECT_THAT(dataset.explain(), HasSubstr("can't be saved"));
  }
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
  EXPECT_THAT(refusal([] { (void)numbers(4).pad_batches(); }), HasSubstr("put it after a batch"));
  EXPECT_THAT(refusal([] { (void)numbers(4).repeat().batch(2).pad_batches(); }),
              HasSubstr("infinitely many"));
}

TEST(PadBatches, GivesEveryShardAsManyWhateverStandsBetween) {
  using Rest = std::function<Dataset(const Dataset&)>;
  const auto running = [](const Element&, Element element) {
    return std::pair(Element(), element);
  };
  const auto with_y = [](const Dataset& d) {
    return zip({d, d.map(
                       [](const Element& e) {
                         return Element({{"y", e["x"]}});
                       },
                       {.output = Spec({{"y", DType::i64, Shape()}})})});
  };
  // What stands behind shard(3, i) of 0 … 6, and how many batches of 2 the largest shard gives.
  const std::vector<std::tuple<std::string, Rest, std::size_t>> cases{
      {"shuffle", [](const Dataset& d) { return d.shuffle(); }, 2},
      {"buffered shuffle", [](const Dataset& d) { return d.shuffle({.buffer = 2}); }, 2},
      {"cache", [](const Dataset& d) { return d.cache(); }, 2},
      {"enumerate", [](const Dataset& d) { return d.enumerate(); }, 2},
      {"scan", [=](const Dataset& d) { return d.scan(Element(), running); }, 2},
      {"repeat", [](const Dataset& d) { return d.shuffle().repeat(2); }, 3},
      {"take", [](const Dataset& d) { return d.take(3); }, 2},
      {"take fewer", [](const Dataset& d) { return d.take(1).repeat(3); }, 2},
      {"skip", [](const Dataset& d) { return d.skip(2); }, 1},
      {"skip all", [](const Dataset& d) { return d.skip(-1); }, 0},
      {"concatenate", [](const Dataset& d) { return d.concatenate(d).concatenate(numbers(1)); }, 4},
      {"zip", with_y, 2},
      {"select",
       [](const Dataset& d) {
         return d.select({1, 0, 1});
       },
       2},
      {"shard", [](const Dataset& d) { return d.shuffle().shard(2, 1).repeat(2); }, 2},
      {"several",
       [](const Dataset& d) {
         return d.shuffle().cache().repeat(4).map([](Element e) { return e; }).skip(1).prefetch(2);
       },
       6},
  };
  for (const auto& [name, rest, expected] : cases) {
    for (int index = 0; index < 3; ++index) {
      const Dataset dataset = rest(numbers(7).shard(3, index)).batch(2).pad_batches();
      EXPECT_EQ(dataset.cardinality(), static_cast<std::int64_t>(expected)) << name;
      Iterator iterator = dataset.iterate();
      std::size_t batches = 0;
      while (iterator.next().has_value()) ++batches;
      EXPECT_EQ(batches, expected) << name << ", shard " << index;
    }
  }
  for (int index = 0; index < 3; ++index) {
    const Dataset part = numbers(7).shard(3, index);
    const auto refused = [](const Dataset& elements) {
      return refusal([&] { (void)elements.batch(2).pad_batches(); });
    };
    EXPECT_THAT(refused(sample_from({part, part}, {1, 1})), HasSubstr("largest shard"));
    EXPECT_THAT(refused(part.batch(2, {.drop_remainder = true}).unbatch()),
                HasSubstr("batch is between"));
    EXPECT_THAT(refused(part.repeat()), HasSubstr("infinitely many"));
    EXPECT_THAT(refused(part.filter([](const Element&) { return true; })),
                HasSubstr("unknown number"));
  }
}

TEST(Figures, ResumeFarIn) {
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
  };
  for (const Case& test :
       std::vector<Case>{{"element 10,000,000 of an indexed source, perfect shuffle",
                          range(kSize).shuffle(), 10'000'000},
                         {"element 1,000,000 behind shuffle(10000)",
                          range(kSize).shuffle({.buffer = 10'000}), 1'000'000}}) {
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
    EXPECT_GE(decodes, 1000U);
    EXPECT_EQ(decoded_again, 0U) << test.name;
    EXPECT_LE(state.size(), 4096U);
    std::printf(
        "figure: resume at %s: %.2f ms to the first decode, %d earlier decodes, state %zu "
        "bytes\n",
        test.name, ms, static_cast<int>(decoded_again), state.size());
  }
}

}  // namespace exact_test
}  // namespace penstock
