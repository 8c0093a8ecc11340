// The byte budget is never passed, and a full one fails nothing that fits by itself.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include <penstock/rng.h>
#include <penstock/sources.h>

#include "tests/engine/budgets.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"
#include "tests/support/time_limit.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace budget_test {

using test::Clock;
using test::DoubleOp;
using test::numbers;
using test::ParetoSource;
using test::seconds_since;

/// "size:byte" of each string, errors as "E".
std::vector<std::string> read_all(const Dataset& dataset, RunOptions options, Stats* stats) {
  std::vector<std::string> all;
  Iterator iterator = dataset.iterate(options);
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    if (next.is_error()) {
      all.push_back("E");
      continue;
    }
    const Tensor& data = next.value()["data"];
    for (std::int64_t i = 0; i < data.volume(); ++i) {
      const std::string_view text = data.bytes_at(i);
      EXPECT_EQ(text.find_first_not_of(text.front()), std::string_view::npos) << "torn bytes";
      all.push_back(std::to_string(text.size()) + ":" +
                    std::to_string(static_cast<unsigned char>(text.front())));
    }
    const MemoryStats memory = iterator.stats().memory;
    EXPECT_LE(memory.used_bytes, memory.budget_bytes);
    EXPECT_LE(memory.peak_bytes, memory.budget_bytes);
  }
  if (stats != nullptr) *stats = iterator.stats();
  return all;
}

TEST(Budget, IsNeverPassedWithHeavyTailedSizes) {
  for (const bool blocking : {false, true}) {
    for (const bool tells : {false, true}) {
      const auto source = std::make_shared<ParetoSource>(
          ParetoSource::Options{.blocking = blocking, .tells_bytes = tells});
      std::vector<std::string> expected;
      for (std::uint64_t i = 0; i < *source->size(); ++i) {
        expected.push_back(std::to_string(source->bytes_of(i)) + ":" + std::to_string(i % 251));
      }
      const Dataset read{SourcePtr(source)};
      const Dataset doubled = read.map_op(std::make_shared<DoubleOp>());
      const auto yes = [](const Element&) { return true; };
      const std::vector<std::pair<const char*, Dataset>> shapes{
          {"elements", read},
          {"mapped", doubled},
          {"batches", doubled.batch(2)},
          {"filtered batches", doubled.filter(yes).batch(2)},
      };
      for (const auto& [name, dataset] : shapes) {
        // The largest element needs 3 x 61,440 bytes at once; two of them make a batch.
        for (const std::uint64_t budget : {512U << 10, 1U << 20, 8U << 20, 256U << 20}) {
          for (const int threads : {1, 2, 8}) {
            Stats stats;
            const auto got =
                read_all(dataset, {.threads = threads, .memory_bytes = budget, .slots = 1}, &stats);
            EXPECT_EQ(got, expected)
                << name << ", " << budget << " bytes, " << threads << " threads, "
                << (blocking ? "blocking" : "computing") << (tells ? "" : ", sizes not told");
            EXPECT_LE(stats.memory.peak_bytes, budget);
            EXPECT_GT(stats.memory.peak_bytes, 0U);
          }
        }
      }
    }
  }
}

TEST(Budget, OversizedElement) {
  for (const bool blocking : {false, true}) {
    for (const bool tells : {false, true}) {
      const auto source =
          std::make_shared<ParetoSource>(ParetoSource::Options{.count = 50,
                                                               .most = 5000,
                                                               .blocking = blocking,
                                                               .tells_bytes = tells,
                                                               .giant = 20,
                                                               .giant_bytes = 2U << 20});
      for (const Dataset& dataset :
           {Dataset(SourcePtr(source)), Dataset(SourcePtr(source)).batch(1)}) {
        for (const int threads : {1, 4}) {
          const auto start = Clock::now();
          const std::vector<Error> errors =
              test::errors(dataset, {.threads = threads, .memory_bytes = 1U << 20});
          ASSERT_EQ(errors.size(), 1U);
          EXPECT_EQ(errors[0].code(), ErrorCode::resource_exhausted);
          EXPECT_EQ(errors[0].where().index, 20);
          EXPECT_EQ(errors[0].where().shard, "pareto");
          EXPECT_NE(std::string(errors[0].what()).find(std::to_string(2U << 20)), std::string::npos)
              << errors[0].what();
          EXPECT_LT(seconds_since(start), 60.0);
        }
      }
    }
  }
}

/// Groups are as large as small records allow when the large ones come, of which a few fit.
constexpr std::uint64_t kSmallOnes = 600;
constexpr std::uint64_t kSteps = 700;
constexpr std::uint64_t kStepBudget = 2U << 20;

Dataset steps(bool blocking = false, bool tells = true) {
  return Dataset(
      SourcePtr(std::make_shared<ParetoSource>(ParetoSource::Options{.count = kSteps,
                                                                     .least = 10,
                                                                     .most = 10,
                                                                     .blocking = blocking,
                                                                     .tells_bytes = tells,
                                                                     .giant = kSmallOnes,
                                                                     .giant_bytes = 100U << 10,
                                                                     .giants_only = true})));
}

std::vector<std::string> step_texts() {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    texts.push_back((i < kSmallOnes ? "10:" : "102400:") + std::to_string(i % 251));
  }
  return texts;
}

bool yes(const Element&) {
  return true;
}

/// Both of `input`: "data" and "other".
Dataset with_itself(const Dataset& input) {
  const auto renamed = [](const Element& element) { return Element({{"other", element["data"]}}); };
  return zip(
      {input.filter(yes),
       input.map(renamed, {.name = "renamed", .output = Spec({{"other", DType::bytes, Shape()}})})
           .filter(yes)});
}

TEST(Budget, FittingElementsWhenFull) {
  const test::TimeLimit limit(240);
  const auto same = [](Element element) { return element; };
  for (const bool blocking : {false, true}) {
    for (const bool tells : {false, true}) {
      const Dataset read = steps(blocking, tells);
      const std::vector<std::pair<const char*, Dataset>> shapes{
          {"filtered", read.filter(yes)},
          {"filtered twice", read.filter(yes).map(same).filter(yes)},
          {"filtered batches", read.filter(yes).batch(3)},
          {"out of order", read.map(same, {.ordered = false}).filter(yes)},
          {"with itself", with_itself(read)},
      };
      for (const auto& [name, dataset] : shapes) {
        for (const int threads : {1, 2, 8}) {
          std::vector<std::string> expected = step_texts();
          auto got = read_all(dataset, {.threads = threads, .memory_bytes = kStepBudget}, nullptr);
          if (name == std::string("out of order")) {
            std::sort(expected.begin(), expected.end());
            std::sort(got.begin(), got.end());
          }
          EXPECT_EQ(got, expected)
              << name << ", " << threads << " threads, " << (blocking ? "blocking" : "computing")
              << (tells ? "" : ", sizes not told");
        }
      }
    }
  }
}

TEST(Budget, ProgressWhenFull) {
  const test::TimeLimit limit(120);
  const auto count = [](const Element& state, const Element&) {
    const Element next = test::x_element(state["x"].item<std::int64_t>() + 1);
    return std::pair(next, next);
  };
  const std::vector<std::pair<const char*, Dataset>> inputs{{"filtered", steps().filter(yes)},
                                                            {"with itself", with_itself(steps())}};
  for (const auto& [name, input] : inputs) {
    const Dataset dataset = input.scan(test::x_element(0), count, {.output = test::x_spec()});
    const RunOptions options{.threads = 1, .memory_bytes = kStepBudget};
    Iterator iterator = dataset.iterate(options);
    for (std::uint64_t i = 0; i + 5 < kSteps; ++i) ASSERT_TRUE(iterator.next().has_value()) << name;
    Iterator restored = dataset.restore(iterator.save(), options);
    for (std::uint64_t i = kSteps - 5; i < kSteps; ++i) {
      Next next = restored.next();
      ASSERT_TRUE(next.has_value()) << name;
      EXPECT_EQ(test::text_of(*next), std::to_string(i + 1)) << name;
    }
    EXPECT_TRUE(restored.next().is_end()) << name;
  }
}

TEST(Budget, EpochLeftWhileItWaits) {
  const test::TimeLimit limit(120);
  const auto same = [](Element element) { return element; };
  const Dataset dataset = steps().filter(yes).map(same).filter(yes);
  Iterator iterator = dataset.iterate({.epochs = 2, .threads = 1, .memory_bytes = kStepBudget});
  std::vector<Element> kept;  // so that it is full
  for (std::uint64_t i = 0; i < kSmallOnes + 10; ++i) {
    Next next = iterator.next();
    ASSERT_TRUE(next.has_value());
    kept.push_back(std::move(*next));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_TRUE(iterator.next_epoch());
  kept.clear();
  for (std::uint64_t i = 0; i < kSteps; ++i) ASSERT_TRUE(iterator.next().has_value()) << i;
  EXPECT_TRUE(iterator.next().is_end());
}

/// Each place where a batch stage is used has slots of its own.
TEST(Budget, BatchStageUsedTwice) {
  constexpr std::uint64_t kSlot = 16 << 12;  // of 16 elements of 4 KiB
  const Dataset batches =
      numbers(400)
          .map(
              [](const Element& in, Element& out, Rng&) {
                std::memset(out[0].mutable_data(), static_cast<int>(test::x_of(in)), 1U << 12);
              },
              {.name = "fill", .output = Spec({{"x", DType::u8, {1 << 12}}})})
          .batch(16);
  const auto renamed = [](const std::string& name, const Dataset& input) {
    return input.map(
        [name](const Element& e) {
          Element out({{name, e[0]}});
          out.valid_rows = e.valid_rows;
          return out;
        },
        {.name = name, .output = Spec({{name, DType::u8, {Shape::kUnknown, 1 << 12}}})});
  };
  struct Case {
    std::string name;
    Dataset dataset;
    std::uint64_t uses;
  };
  const std::vector<Case> cases{
      {"zip", zip({batches, renamed("y", batches)}), 2},
      {"three", zip({batches, renamed("y", batches), renamed("z", batches)}), 3},
      {"concatenate", batches.concatenate(batches), 2},
  };
  for (const Case& test : cases) {
    for (const std::uint64_t slots : {2, 3, 4, 8}) {
      const RunOptions options{.threads = 1, .memory_bytes = slots * kSlot + 4096};
      if (slots < test.uses) {
        test::expect_error(ErrorCode::resource_exhausted,
                           std::to_string(test.uses) + " times " + std::to_string(kSlot) +
                               " for a batch of batch[2]",
                           [&] { (void)test.dataset.iterate(options); });
        continue;
      }
      Iterator iterator = test.dataset.iterate(options);
      const test::TimeLimit limit(60);
      const auto start = Clock::now();
      int count = 0;
      for (;; ++count) {
        const Next next = iterator.next();
        if (next.is_end()) break;
        ASSERT_TRUE(next.has_value()) << test.name << " " << slots << next.error().what();
      }
      EXPECT_EQ(count, test.name == "concatenate" ? 50 : 25) << test.name;
      EXPECT_LT(seconds_since(start), 60.0) << test.name << " " << slots;
      EXPECT_LE(iterator.stats().memory.peak_bytes, options.memory_bytes);
    }
  }
}

/// Text that stages copy counts like everything else.
TEST(Budget, CountsTheTextThatIsCopied) {
  constexpr std::size_t kText = 64 << 10;
  const auto texts = [](const Shape& shape, std::int64_t count) {
    return numbers(count).map(
        [shape](const Element&) {
          const std::string text(kText, 'a');
          const std::array<std::string_view, 1> views{text};
          const Tensor tensor = Tensor::of_bytes(views);
          return Element({{"x", shape.rank() == 0 ? tensor.reshape({}) : tensor}});
        },
        {.name = "text", .output = Spec({{"x", DType::bytes, shape}})});
  };
  struct Case {
    std::string name;
    Dataset dataset;
    std::size_t last;  // texts in the last batch
  };
  const std::vector<Case> cases{
      {"padded_batch", texts({Shape::kUnknown}, 40).padded_batch(4), 4},
      {"ragged_batch", texts({Shape::kUnknown}, 40).ragged_batch(4), 4},
      {"batch", texts({1}, 40).batch(4), 4},
      {"rebatch", texts({}, 40).batch(2).rebatch(4), 4},
      {"pad_batches", texts({}, 38).batch(4).pad_batches(), 2},
  };
  for (const Case& test : cases) {
    {
      Iterator iterator = test.dataset.iterate({.threads = 2, .memory_bytes = 8 << 20});
      const test::TimeLimit limit(60);
      Element kept;
      for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
        ASSERT_TRUE(next.has_value()) << test.name << next.error().what();
        kept = *next;
      }
      EXPECT_GE(iterator.stats().memory.used_bytes, test.last * kText) << test.name;
      EXPECT_EQ(kept[0].bytes_at(0).size(), kText) << test.name;
    }
    const RunOptions small{.threads = 2, .memory_bytes = test.last * kText};
    Iterator iterator = test.dataset.iterate(small);
    const test::TimeLimit limit(60);
    int failed = 0;
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
      if (!next.is_error()) continue;
      ++failed;
      EXPECT_EQ(name_of(next.error().code()), name_of(ErrorCode::resource_exhausted)) << test.name;
    }
    EXPECT_GE(failed, 1) << test.name;
    EXPECT_LE(iterator.stats().memory.peak_bytes, small.memory_bytes) << test.name;
  }
}

}  // namespace budget_test
}  // namespace penstock
