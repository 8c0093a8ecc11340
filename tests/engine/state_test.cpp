// Saving before every element and continuing in a fresh run.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include <penstock/plan.h>
#include <penstock/sources.h>
#include <penstock/state.h>

#include "pipeline/engine/run/saved_run.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/numbers.h"
#include "tests/support/sanitizer.h"
#include "tests/support/time_limit.h"

namespace penstock {
namespace state_test {

using test::failing_at;
using test::numbers;
using test::stream;

struct Case {
  const char* name;
  Dataset dataset;
};

Dataset noisy(const Dataset& input) {
  return input.map([](Element element, Rng& rng) {
    element.set("x", Tensor::scalar<std::int64_t>(element["x"].item<std::int64_t>() * 100 +
                                                  static_cast<std::int64_t>(rng.below(100))));
    return element;
  });
}

bool odd(const Element& element) {
  return element["x"].item<std::int64_t>() % 2 != 0;
}

std::vector<Case> cases() {
  return {
      {"source", numbers(7)},
      {"stream", stream({5, 6, 7, 8})},
      {"shuffle", noisy(numbers(20).shuffle())},
      {"buffered shuffle", noisy(numbers(20).shuffle({.buffer = 5}))},
      {"shard", numbers(20).shard(3, 1)},
      {"stream shard", stream({1, 2, 3, 4, 5, 6, 7}).shard(3, 1)},
      {"take and skip", stream({1, 2, 3, 4, 5, 6, 7}).skip(2).take(4)},
      {"repeat", noisy(numbers(4).shuffle().repeat(3))},
      {"filter", noisy(numbers(12).filter(odd))},
      {"take_while",
       numbers(12).take_while([](const Element& e) { return e["x"].item<std::int64_t>() < 7; })},
      {"take behind work", noisy(numbers(12)).take(5)},
      {"concatenate", numbers(3).concatenate(noisy(numbers(4)))},
      {"zip", zip({noisy(numbers(6)), numbers(5).enumerate().map(
                                          [](Element e) {
                                            Element out;
                                            out.set("y", e["index"]);
                                            return out;
                                          },
                                          {.output = Spec({{"y", DType::i64, Shape()}})})})},
      {"batch", noisy(numbers(11)).batch(3)},
      {"batch of filter", noisy(numbers(30).filter(odd)).batch(4)},
      {"batch, repeat", noisy(numbers(5)).batch(2).repeat(2)},
      {"unbatch", noisy(numbers(10)).batch(4).unbatch()},
      {"rebatch", noisy(numbers(10)).batch(4).unbatch().batch(3)},
      {"errors", failing_at(noisy(numbers(1)).concatenate(numbers(9)), 4)},
      {"errors in batches", failing_at(numbers(12), 5).batch(3)},
      {"cache", numbers(6).cache().repeat(2)},
      {"interleave",
       numbers({3, 0, 5, 2, 4})
           .interleave([](const Element& e) { return noisy(numbers(e["x"].item<std::int64_t>())); },
                       numbers(1).spec(), {.cycle = 2, .block = 2})},
      {"interleave of values",
       noisy(numbers(5))
           .interleave(
               [](const Element& e) {
                 return stream({1, 2, e["x"].item<std::int64_t>()}).filter(odd);
               },
               numbers(1).spec(), {.cycle = 3, .block = 1})},
      {"flat_map of batches",
       numbers({3, 0, 5}).flat_map(
           [](const Element& e) {
             return noisy(numbers(e["x"].item<std::int64_t>())).batch(2).unbatch().repeat(2);
           },
           numbers(1).spec())},
      {"sample_from", sample_from({numbers(6), stream({10, 11, 12})}, {0.5, 0.5})},
      {"choose_from", choose_from({numbers(3), stream({10, 11, 12})}, numbers({0, 1, 1, 0, 1, 0}))},
  };
}

std::string text_of(Next& next) {
  if (next.is_error()) return "E";
  std::string text;
  for (const std::int64_t value : (*next)[0].to_vector<std::int64_t>()) {
    text += std::to_string(value) + " ";
  }
  return text;
}

/// Everything that is left of the current epoch and those behind it.
std::vector<std::string> rest_of(Iterator& iterator) {
  std::vector<std::string> rest;
  do {
    for (;;) {
      Next next = iterator.next();
      if (next.is_end()) break;
      rest.push_back(text_of(next));
    }
    rest.emplace_back("end");
  } while (iterator.next_epoch());
  return rest;
}

TEST(State, GoesOnFromEveryPosition) {
  constexpr std::size_t kEvery = test::kAddressSanitizer || test::kThreadSanitizer ? 2 : 1;
  for (const Case& test : cases()) {
    for (const OnError on_error : {OnError::fail, OnError::skip}) {
      const RunOptions options{.seed = 11, .epochs = 2, .threads = 2, .on_error = on_error};
      Iterator whole = test.dataset.iterate(options);
      const std::vector<std::string> expected = rest_of(whole);
      Iterator walked = test.dataset.iterate(options);
      for (std::size_t position = 0; position < expected.size(); ++position) {
        const std::string state = walked.save();
        EXPECT_LE(state.size(), 4096U) << test.name;
        if (position % kEvery == 0) {
          Iterator resumed =
              test.dataset.restore(state, {.epochs = 2,
                                           .threads = 1 + static_cast<int>(position % 3),
                                           .slots = 1 + static_cast<int>(position % 5),
                                           .on_error = on_error});
          const auto rest = expected.begin() + static_cast<std::ptrdiff_t>(position);
          ASSERT_EQ(rest_of(resumed), std::vector<std::string>(rest, expected.end()))
              << test.name << " at " << position;
        }
        if (expected[position] == "end") {
          ASSERT_TRUE(walked.next().is_end());
          // The end has been seen: it is part of the state.
          Iterator ended = test.dataset.restore(walked.save(), {.epochs = 2});
          EXPECT_TRUE(ended.next().is_end());
          if (position + 1 < expected.size()) {
            ASSERT_TRUE(walked.next_epoch());
          }
        } else {
          Next next = walked.next();
          ASSERT_EQ(text_of(next), expected[position]) << test.name;
        }
      }
    }
  }
}

TEST(State, GoesBackWithAllThreads) {
  struct Counts {
    std::atomic<int> at_once{0};
    std::atomic<int> most{0};
    std::atomic<bool> resuming{false};
    /// While the run resumes, until two were under way at once; at most 20 s in all.
    void wait_for_another() {
      for (; resuming && most < 2 && pauses < 20'000; ++pauses)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::atomic<int> pauses{0};
  };
  const auto counts = std::make_shared<Counts>();
  const Dataset dataset = numbers(300)
                              .map(
                                  [counts](Element element) {
                                    const int now = ++counts->at_once;
                                    for (int most = counts->most; now > most;) {
                                      if (counts->most.compare_exchange_weak(most, now)) break;
                                    }
                                    counts->wait_for_another();
                                    --counts->at_once;
                                    return element;
                                  },
                                  {.name = "slow"})
                              .scan(test::x_element(0), [](const Element& state, Element element) {
                                const std::int64_t sum = state["x"].item<std::int64_t>() +
                                                         element["x"].item<std::int64_t>();
                                return std::pair(test::x_element(sum), test::x_element(sum));
                              });
  Iterator whole = dataset.iterate({.threads = 4});
  for (int i = 0; i < 299; ++i) ASSERT_TRUE(whole.next().has_value());
  const std::string state = whole.save();
  while (!whole.next().is_end()) continue;
  counts->most = 0;
  counts->resuming = true;
  Iterator resumed = dataset.restore(state, {.threads = 4});
  EXPECT_GT(counts->most, 1);
  Next last = resumed.next();
  EXPECT_EQ(text_of(last), "44850 ");
}

TEST(State, KeepsTheMultisetOfResultsOutOfOrder) {
  const Dataset dataset = numbers(600).map(
      [](Element element) {
        if (element["x"].item<std::int64_t>() % 7 == 0) std::this_thread::yield();
        return element;
      },
      {.name = "unordered", .ordered = false});
  for (const int stop : {0, 1, 17, 300, 599, 600}) {
    std::multiset<std::int64_t> seen;
    Iterator first = dataset.iterate({.threads = 3});
    for (int i = 0; i < stop; ++i) seen.insert(first.next().value()["x"].item<std::int64_t>());
    Iterator second = dataset.restore(first.save(), {.threads = 2});
    for (;;) {
      Next next = second.next();
      if (next.is_end()) break;
      seen.insert(next.value()["x"].item<std::int64_t>());
    }
    EXPECT_EQ(seen.size(), 600U) << stop;
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 600U) << stop;
  }
}

/// What an epoch that can't begin or continue saves is where it stood, not its end.
TEST(State, OfAnEpochThatFailedGoesOnOnceItCan) {
  const test::TempFolder folder;
  const Dataset cached = numbers(40).cache(folder / "cache").batch(4);
  std::optional<Iterator> writer;
  auto working = std::make_shared<std::atomic<bool>>(true);
  const Dataset generated = generate(
                                [working]() -> Generator {
                                  if (!*working) throw Error(ErrorCode::unavailable, "not now");
                                  return [x = std::int64_t{0}](Element& out) mutable {
                                    out.set("x", Tensor::scalar(x));
                                    return x++ < 40;
                                  };
                                },
                                test::x_spec(), "unwell")
                                .batch(4);
  const Dataset large =
      numbers(40)
          .map(
              [](const Element&) {
                return Element(
                    {{"x", Tensor::of<std::int64_t>({2000}, std::vector<std::int64_t>(2000, 7))}});
              },
              {.output = Spec({{"x", DType::i64, {2000}}})})
          .cache();
  struct FailingCase {
    std::string name;
    Dataset dataset;
    RunOptions options;
    std::function<void()> spoil;
    std::function<void()> mend;
  };
  const auto break_it = [working] { *working = false; };
  const auto mend_it = [working] { *working = true; };
  const std::vector<FailingCase> cases{
      {"a cache that another run writes",
       cached,
       {.epochs = 2},
       [&] { writer.emplace(cached.iterate({.slots = 1})), (void)writer->next(); },
       [&] { writer.reset(); }},
      {"a source that can't begin", generated, {.epochs = 2}, break_it, mend_it},
      {"a cache without room", large, {.memory_bytes = 512 << 10}, [] {}, [] {}},
  };
  for (const FailingCase& test : cases) {
    Iterator whole = test.dataset.iterate({.epochs = test.options.epochs});
    const std::vector<std::string> expected = rest_of(whole);
    if (test.name.find("another") != std::string::npos) std::filesystem::remove(folder / "cache");
    test.spoil();
    Iterator iterator = test.dataset.iterate(test.options);
    const test::TimeLimit limit(60);
    std::vector<std::string> got;
    Next next = iterator.next();
    for (; next.has_value(); next = iterator.next()) got.push_back(text_of(next));
    ASSERT_TRUE(next.is_error()) << test.name;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(iterator.next().is_end()) << test.name;
    const std::string state = iterator.save();
    test.mend();
    Iterator restored = test.dataset.restore(state, {.epochs = test.options.epochs});
    const std::vector<std::string> rest = rest_of(restored);
    got.insert(got.end(), rest.begin(), rest.end());
    EXPECT_EQ(got, expected) << test.name;
  }
}

TEST(State, RefusesAnotherGraph) {
  Iterator iterator = numbers(10).shuffle().batch(2).iterate({.seed = 1});
  (void)iterator.next();
  const std::string state = iterator.save();
  try {
    (void)numbers(10).shuffle().batch(3).restore(state);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("batch[2]"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW((void)numbers(10).shuffle().batch(2).restore(state));
}

TEST(State, RefusesDamage) {
  Iterator iterator = numbers(10).batch(2).iterate({.seed = 1});
  (void)iterator.next();
  const std::string state = iterator.save();
  for (std::size_t size = 0; size < state.size(); ++size) {
    EXPECT_THROW((void)numbers(10).batch(2).restore(state.substr(0, size)), Error) << size;
  }
  for (std::size_t bit = 0; bit < state.size() * 8; ++bit) {
    std::string damaged = state;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW((void)numbers(10).batch(2).restore(damaged), Error) << bit;
  }
}

// Whoever wrote the state: its checksum is right.
TEST(State, OfAnEpochThatTheRunDoesNotHaveIsItsEnd) {
  const Dataset dataset = numbers(3);
  Iterator run = dataset.iterate({.epochs = 4});
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (!run.next().is_end()) continue;
    ASSERT_TRUE(run.next_epoch());
  }
  ASSERT_TRUE(run.next().has_value());
  const std::string state = run.save();
  EXPECT_TRUE(dataset.restore(state, {.epochs = 3}).next().has_value());
  Iterator over = dataset.restore(state, {.epochs = 2});
  EXPECT_EQ(over.epoch(), 2U);
  EXPECT_TRUE(over.next().is_end());
  EXPECT_FALSE(over.next_epoch());
  EXPECT_TRUE(dataset.restore(over.save(), {.epochs = 3}).next().has_value());
}

TEST(State, RefusesAPositionBehindTheEnd) {
  for (const Dataset& dataset : {range(12).batch(2), range(24).shard(2, 1).batch(2)}) {
    Iterator iterator = dataset.iterate({});
    for (int i = 0; i < 3; ++i) (void)iterator.next();
    const Plan plan = compile(dataset);
    SavedRun saved = SavedRun::parse(iterator.save(), Fingerprint(*plan.root()));
    StateReader tree(saved.tree);
    StateWriter changed;
    for (int i = 0; i < 3; ++i) changed.put(tree.get());
    (void)tree.get();  // items that were passed behind the input's position
    changed.put(13);
    changed.put_bytes(tree.get_bytes());
    changed.put(tree.get());
    saved.tree = changed.take();
    const std::optional<Error> error =
        test::thrown_by([&] { (void)dataset.restore(saved.bytes(Fingerprint(*plan.root()))); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::data_loss);
  }
}

}  // namespace state_test
}  // namespace penstock
