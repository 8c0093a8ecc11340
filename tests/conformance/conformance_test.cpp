// One suite over every stage, alone and in pairs: ends once, same for any threads, slots and
// memory, errors in place, cancel, destroy, epochs, save and restore.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <penstock/rng.h>

#include "pipeline/core/begin_run.h"
#include "tests/conformance/stages.h"
#include "tests/support/canceller.h"

namespace penstock {
namespace {

using test::failing_at;
using test::iota;
using test::numbers;
using test::StageCase;
using test::text_of;
using test::x_of;

/// All of a run, one entry for each call of next; sorted if the order is free.
std::vector<std::string> outcomes(const Dataset& dataset, RunOptions options, bool sorted) {
  std::vector<std::string> all;
  Iterator iterator = dataset.iterate(options);
  do {
    const auto begin = static_cast<std::ptrdiff_t>(all.size());
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      all.push_back(next.is_error() ? "E" : text_of(*next));
    }
    if (sorted) std::sort(all.begin() + begin, all.end());
    all.push_back(";");
  } while (iterator.next_epoch());
  return all;
}

const std::vector<std::int64_t> kSizes{0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 40};

class Conformance : public ::testing::TestWithParam<StageCase> {};

TEST_P(Conformance, GivesAsManyAsItShouldAndEndsForGood) {
  for (const std::int64_t n : kSizes) {
    const Dataset dataset = GetParam().build(numbers(n));
    Iterator iterator = dataset.iterate({.threads = 2});
    std::int64_t count = 0;
    Next next = iterator.next();
    for (; next.has_value(); next = iterator.next()) ++count;
    EXPECT_TRUE(next.is_end());
    if (GetParam().count) {
      EXPECT_EQ(count, GetParam().count(n)) << n;
    }
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(iterator.next().is_end());
    EXPECT_FALSE(iterator.next_epoch());
    EXPECT_TRUE(iterator.next().is_end());
    if (dataset.cardinality() >= 0) {
      EXPECT_EQ(dataset.cardinality(), count);
    }
  }
}

TEST_P(Conformance, GivesWhatIsWritten) {
  if (GetParam().gives.empty()) return;
  test::expect_over_inputs(GetParam().name, {0, 1, 2}, GetParam().build, GetParam().gives);
}

TEST_P(Conformance, IsTheSameForAnyThreadsSlotsAndMemory) {
  for (const std::int64_t n : {1, 9, 40}) {
    for (const bool batched : {false, true}) {
      if (batched && GetParam().unordered) continue;
      const Dataset plain = GetParam().build(numbers(n));
      const Dataset dataset = batched ? plain.batch(3) : plain;
      const auto expected =
          outcomes(dataset, {.seed = 5, .epochs = 2, .threads = 1}, GetParam().unordered);
      for (const int threads : {1, 2, 8}) {
        for (const int slots : {1, 2, 4}) {
          for (const std::uint64_t memory : {1U << 14, 1U << 26}) {
            EXPECT_EQ(outcomes(dataset,
                               {.seed = 5,
                                .epochs = 2,
                                .threads = threads,
                                .memory_bytes = memory,
                                .slots = slots},
                               GetParam().unordered),
                      expected)
                << n << " elements, " << threads << " threads, " << slots << " slots, " << memory;
          }
        }
      }
    }
  }
}

TEST_P(Conformance, GoesOnBehindAnError) {
  for (const std::int64_t bad : {0, 1, 4, 8, 9}) {
    const Dataset dataset = GetParam().build(failing_at(numbers(10), bad));
    const auto expected = outcomes(dataset, {.threads = 1}, GetParam().unordered);
    auto good = expected;
    std::erase(good, "E");
    for (const int threads : {2, 8}) {
      EXPECT_EQ(outcomes(dataset, {.threads = threads}, GetParam().unordered), expected);
    }
    const auto skipped =
        outcomes(dataset, {.threads = 1, .on_error = OnError::skip}, GetParam().unordered);
    EXPECT_EQ(std::count(skipped.begin(), skipped.end(), "E"), 0);
    EXPECT_GE(skipped.size(), good.size());
    for (const int threads : {2, 8}) {
      EXPECT_EQ(
          outcomes(dataset, {.threads = threads, .on_error = OnError::skip}, GetParam().unordered),
          skipped);
    }
  }
}

/// The states of a run from `begin` on, after each call of next. Waits before some of them, so that
/// the run reads ahead.
std::vector<std::string> exact_states(Iterator& iterator, std::uint64_t waits) {
  std::vector<std::string> states{iterator.save()};
  do {
    for (bool more = true; more; states.push_back(iterator.save())) {
      if (Rng(waits, states.size(), 0).below(16) == 0) std::this_thread::yield();
      more = !iterator.next().is_end();
    }
  } while (iterator.next_epoch());
  states.push_back(iterator.save());
  return states;
}

TEST_P(Conformance, ExactStates) {
  if (GetParam().unordered) return;
  // The paths of files, and whether these are complete, are part of a state.
  if (GetParam().name == "cache in a file" || GetParam().name == "snapshot, repeated") return;
  for (const bool batched : {false, true}) {
    // A graph for each run, because runs of the same one share what they learn of its inputs.
    const auto dataset = [batched] {
      const Dataset plain = GetParam().build(numbers(150));
      return batched ? plain.batch(3) : plain;
    };
    RunOptions options{.seed = 5, .epochs = 2, .threads = 1, .exact_state = true};
    Iterator first = dataset().iterate(options);
    try {
      static_cast<void>(first.save());
    } catch (const Error&) {
      return;  // the graph has no states
    }
    const std::vector<std::string> expected = exact_states(first, 1);
    for (const int threads : {2, 8}) {
      options.threads = threads;
      options.memory_bytes = threads == 8 ? 1U << 16 : 1U << 26;  // so that it makes elements again
      Iterator iterator = dataset().iterate(options);
      const std::vector<std::string> states =
          exact_states(iterator, static_cast<std::uint64_t>(threads));
      ASSERT_EQ(states.size(), expected.size());
      for (std::size_t i = 0; i < states.size(); ++i)
        ASSERT_TRUE(states[i] == expected[i]) << "state " << i << ", " << threads << " threads";
    }
    for (const std::size_t at : {std::size_t{1}, expected.size() / 3, expected.size() / 2}) {
      Iterator iterator = dataset().restore(expected[at], options);
      const std::vector<std::string> states = exact_states(iterator, at);
      ASSERT_EQ(states.size(), expected.size() - at);
      for (std::size_t i = 0; i < states.size(); ++i)
        ASSERT_TRUE(states[i] == expected[at + i]) << "state " << i << " from " << at << " on";
    }
  }
}

TEST_P(Conformance, TwoRunsOfOneGraph) {
  const Dataset dataset = GetParam().build(numbers(20));
  const auto expected = outcomes(dataset, {.seed = 3, .threads = 1}, GetParam().unordered);
  Iterator a = dataset.iterate({.seed = 3, .threads = 2});
  Iterator b = dataset.iterate({.seed = 3, .threads = 1});
  std::vector<std::string> of_a;
  std::vector<std::string> of_b;
  bool more = true;
  while (more) {
    more = false;
    for (int i = 0; i < 2; ++i) {
      Next next = a.next();
      if (next.has_value()) of_a.push_back(text_of(*next));
      more = more || !next.is_end();
    }
    Next next = b.next();
    if (next.has_value()) of_b.push_back(text_of(*next));
    more = more || !next.is_end();
  }
  if (GetParam().unordered) {
    std::sort(of_a.begin(), of_a.end());
    std::sort(of_b.begin(), of_b.end());
  }
  of_a.push_back(";");
  of_b.push_back(";");
  EXPECT_EQ(of_a, expected);
  EXPECT_EQ(of_b, expected);
}

TEST_P(Conformance, EpochsLeftEarly) {
  const Dataset dataset = GetParam().build(numbers(20));
  if (GetParam().unordered) return;
  const auto all = outcomes(dataset, {.seed = 3, .epochs = 3, .threads = 1}, false);
  std::vector<std::vector<std::string>> epochs(1);
  for (const std::string& text : all) {
    if (text == ";") {
      epochs.emplace_back();
    } else {
      epochs.back().push_back(text);
    }
  }
  for (const std::size_t read : {0U, 1U, 3U}) {
    Iterator iterator = dataset.iterate({.seed = 3, .epochs = 3, .threads = 2});
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(iterator.epoch(), epoch);
      const std::size_t wanted = epoch == 2 ? epochs[2].size() : read;
      for (std::size_t i = 0; i < wanted; ++i) {
        Next next = iterator.next();
        ASSERT_TRUE(next.has_value());
        EXPECT_EQ(text_of(*next), epochs[epoch][i]) << epoch << " " << i;
      }
      EXPECT_EQ(iterator.next_epoch(), epoch < 2);
    }
  }
}

TEST_P(Conformance, IsRestoredAtEveryPosition) {
  if (GetParam().unordered) return;
  for (const bool batched : {false, true}) {
    const Dataset plain = GetParam().build(failing_at(numbers(12), 3));
    const Dataset dataset = batched ? plain.batch(3) : plain;
    const RunOptions options{.seed = 6, .epochs = 2, .threads = 2};
    const auto expected = outcomes(dataset, options, false);
    std::size_t position = 0;
    Iterator iterator = dataset.iterate(options);
    do {
      for (;;) {
        RunOptions other = options;
        other.threads = position % 2 == 0 ? 1 : 8;
        other.slots = 1 + static_cast<int>(position % 3);
        Iterator restored = dataset.restore(iterator.save(), other);
        std::vector<std::string> rest;
        do {
          for (Next next = restored.next(); !next.is_end(); next = restored.next()) {
            rest.push_back(next.is_error() ? "E" : text_of(*next));
          }
          rest.push_back(";");
        } while (restored.next_epoch());
        EXPECT_EQ(rest,
                  std::vector<std::string>(expected.begin() + static_cast<std::ptrdiff_t>(position),
                                           expected.end()))
            << "at " << position << (batched ? " of batches" : "");
        if (iterator.next().is_end()) break;
        ++position;
      }
      ++position;
    } while (iterator.next_epoch());
  }
}

TEST_P(Conformance, RunsThatGoBack) {
  if (GetParam().unordered) return;
  for (const bool batched : {false, true}) {
    for (const OnError on_error : {OnError::fail, OnError::skip}) {
      // A graph for each run, because runs of the same one share what they learn of its inputs.
      const auto dataset = [batched] {
        const Dataset plain = GetParam().build(failing_at(numbers(40), 3));
        return batched ? plain.batch(3) : plain;
      };
      const RunOptions options{
          .seed = 6, .epochs = 2, .threads = 2, .on_error = on_error, .exact_state = true};
      Iterator straight = dataset().iterate(options);
      const auto control = std::make_shared<RunControl>();
      Iterator iterator = begin_run(dataset(), options, {.control = control});
      ASSERT_TRUE(control->go_back);
      for (bool epochs = true; epochs;) {
        std::vector<std::string> expected;  // of this epoch
        std::vector<std::string> states{iterator.save()};
        std::vector<std::shared_ptr<const SavedRun>> marks{control->mark()};
        std::size_t at = 0;
        std::size_t least = 0;  // goes no further back than this, so that it gets to an end
        for (bool more = true; more;) {
          Next next = iterator.next();
          if (at == expected.size()) {
            Next other = straight.next();
            expected.push_back(other.is_end() ? ";" : other.is_error() ? "E" : text_of(*other));
          }
          ASSERT_EQ(next.is_end()     ? ";"
                    : next.is_error() ? "E"
                                      : text_of(*next),
                    expected[at])
              << "at " << at << (batched ? " of batches" : "");
          more = !next.is_end();
          if (!more) break;
          ++at;
          if (at == states.size()) {
            states.push_back(iterator.save());
            marks.push_back(control->mark());
          }
          const std::size_t back = Rng(at, least, 0).below(6);
          if (back == 0 || at - least < back) continue;
          at -= back;
          least = at + 1;
          control->go_back(*marks[at]);
          EXPECT_TRUE(iterator.save() == states[at]) << at;
        }
        EXPECT_EQ(iterator.stats().elements, straight.stats().elements);
        EXPECT_EQ(iterator.stats().batches, straight.stats().batches);
        // A restored run does not count what failed in an earlier pass of this epoch either, nor
        // what a snapshot lacks that is complete by now.
        if (GetParam().name != "pad_batches of repeat" && GetParam().name != "snapshot, repeated") {
          EXPECT_EQ(iterator.stats().epochs.back().skipped, straight.stats().epochs.back().skipped);
        }
        epochs = straight.next_epoch();
        EXPECT_EQ(iterator.next_epoch(), epochs);
      }
    }
  }
}

TEST_P(Conformance, CancelWhileWaiting) {
  for (const bool blocking : {false, true}) {
    auto open = std::make_shared<std::atomic<bool>>(false);
    const Dataset stuck = numbers(100).map(
        [open](Element element) {
          while (!*open && x_of(element) >= 3) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return element;
        },
        {.name = "stuck", .blocking = blocking});
    Iterator iterator = GetParam().build(stuck).iterate({.threads = 2});
    test::Canceller canceller(iterator, *open);
    Next next = iterator.next();
    while (next.has_value()) next = iterator.next();
    canceller.woken();
    if (!next.is_error()) next = iterator.next();  // it had ended before
    ASSERT_TRUE(next.is_error());
    EXPECT_EQ(next.error().code(), ErrorCode::cancelled);
    EXPECT_TRUE(iterator.next().is_end()) << "it is said once";
    EXPECT_FALSE(iterator.next_epoch());
  }
}

TEST_P(Conformance, IsDestroyedWhileFullAtAnyMoment) {
  Rng random(1, 2, 3);
  for (int i = 0; i < 30; ++i) {
    const bool batched = random.below(2) == 0;
    const Dataset plain = GetParam().build(numbers(2000));
    Iterator iterator =
        (batched ? plain.batch(1 + static_cast<std::int64_t>(random.below(50))) : plain)
            .iterate({.epochs = 1 + random.below(3),
                      .threads = 1 + static_cast<int>(random.below(3)),
                      .slots = static_cast<int>(random.below(3))});
    for (std::uint64_t k = random.below(6); k > 0; --k) (void)iterator.next();
    if (random.below(3) == 0) iterator.cancel();
    if (random.below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

TEST_P(Conformance, PairsOfStages) {
  const StageCase& first = GetParam();
  // What an unordered stage gives to one that looks at the order is any of many results.
  if (first.unordered) return;
  for (const StageCase& second : test::stages()) {
    const Dataset dataset = second.build(first.build(failing_at(numbers(10), 6)));
    const auto expected = outcomes(dataset, {.seed = 4, .threads = 1}, second.unordered);
    EXPECT_EQ(outcomes(dataset, {.seed = 4, .threads = 8, .slots = 2}, second.unordered), expected)
        << first.name << ", then " << second.name;
    const auto skipped =
        outcomes(dataset, {.seed = 4, .threads = 1, .on_error = OnError::skip}, second.unordered);
    EXPECT_EQ(std::count(skipped.begin(), skipped.end(), "E"), 0);
    EXPECT_EQ(outcomes(dataset, {.seed = 4, .threads = 2, .slots = 1, .on_error = OnError::skip},
                       second.unordered),
              skipped)
        << first.name << ", then " << second.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Conformance, ::testing::ValuesIn(test::stages()),
                         [](const auto& stage) {
                           std::string name;
                           for (const char c : stage.param.name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

}  // namespace
}  // namespace penstock
