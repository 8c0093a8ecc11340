// The byte budget: never passed, never a hang, and an error with a name where it can't be kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include <penstock/rng.h>
#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"
#include "tests/support/time_limit.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::numbers;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Spec data_spec() {
  return Spec({{"data", DType::bytes, Shape()}});
}

/// Records of heavy-tailed sizes: most are small, a few are a hundred times as large.
class ParetoSource final : public Source {
 public:
  struct Options {
    std::uint64_t count = 150;
    std::uint64_t least = 500;
    std::uint64_t most = 60000;
    bool blocking = false;
    bool tells_bytes = true;
    std::uint64_t giant = UINT64_MAX;  // this one has `giant_bytes`
    std::uint64_t giant_bytes = 0;
    bool giants_only = false;  // from there on
  };
  explicit ParetoSource(Options options) : options_(options) {}

  std::string name() const override { return "pareto"; }
  void describe(Description& description) const override {
    description.add("count", options_.count);
  }
  Spec spec() const override { return data_spec(); }
  std::optional<std::uint64_t> size() const override { return options_.count; }
  bool blocking() const override { return options_.blocking; }
  std::uint64_t bytes_of(std::uint64_t index) const {
    if (index == options_.giant || (options_.giants_only && index > options_.giant))
      return options_.giant_bytes;
    Rng rng(7, index, 1);
    const double size = static_cast<double>(options_.least) / std::pow(1 - rng.uniform(), 0.8);
    return static_cast<std::uint64_t>(std::min(size, static_cast<double>(options_.most)));
  }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return options_.tells_bytes ? bytes_of(index) : 0;
  }
  void read(std::span<ReadItem> items, ReadContext& context) const override {
    for (ReadItem& item : items) {
      try {
        const std::uint64_t bytes = bytes_of(item.index);
        BufferPtr buffer = context.allocate(bytes);
        std::memset(buffer->data(), static_cast<int>(item.index % 251), bytes);
        const std::string_view text(reinterpret_cast<const char*>(buffer->data()), bytes);
        item.element = Element({{"data", Tensor::bytes(text, buffer)}});
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }
  Provenance locate(std::uint64_t index) const override {
    return {"pareto", static_cast<std::int64_t>(index), static_cast<std::int64_t>(index), {}};
  }

 private:
  Options options_;
};

/// Takes twice the memory of its input, keeps one half.
class DoubleOp final : public WorkOp {
 public:
  std::string name() const override { return "double"; }
  void describe(Description&) const override {}
  Spec infer(const Spec& input) const override { return input; }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok()) continue;
      try {
        const std::string_view in = item.element["data"].bytes_at(0);
        BufferPtr scratch = context.allocate(in.size());
        std::memcpy(scratch->data(), in.data(), in.size());
        BufferPtr out = context.allocate(in.size());
        std::memcpy(out->data(), scratch->data(), in.size());
        const std::string_view text(reinterpret_cast<const char*>(out->data()), in.size());
        item.element = Element({{"data", Tensor::bytes(text, out)}});
      } catch (...) {
        item.status = status_from_current_exception();
      }
    }
  }
};

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

TEST(Budget, AnElementLargerThanItIsAnErrorThatNamesIt) {
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
          EXPECT_LT(seconds_since(start), 5.0);
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

TEST(Budget, AFullOneFailsNothingThatFitsByItself) {
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

TEST(Budget, AFullOneDoesNotKeepARunFromGoingOn) {
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

TEST(Budget, AnEpochMayBeLeftWhileItWaitsForMemory) {
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

TEST(Budget, APlanThatNeedsMoreIsRefusedWithTheBytes) {
  const Dataset dataset = numbers(10).batch(1000).unbatch().batch(2000);
  try {
    (void)dataset.iterate({.memory_bytes = 20000});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    for (const char* part : {"20000", "batch"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(test::values(dataset, {.memory_bytes = 1U << 20}).size(), 10U);
}

TEST(Budget, ASizeThatNobodyCanHoldIsRefused) {
  const Dataset none = numbers(10).map(
      [](Element) {
        return Element({{"x", Tensor::allocate(DType::u8, {0})}});
      },
      {.output = Spec({{"x", DType::u8, {0}}})});
  for (const std::int64_t size :
       {INT64_MAX, INT64_MAX - 1, std::int64_t{1} << 61, std::int64_t{1} << 33}) {
    for (const std::uint64_t budget : {std::uint64_t{1} << 20, std::uint64_t{UINT64_MAX}}) {
      for (const OnError on_error : {OnError::fail, OnError::skip}) {
        for (const Dataset& input : {numbers(10), none}) {
          const Dataset dataset = input.batch(size);
          EXPECT_EQ(dataset.cardinality(), 1);
          EXPECT_NE(dataset.explain().find("refused"), std::string::npos);
          test::expect_error(
              ErrorCode::resource_exhausted,
              std::to_string(std::min<std::uint64_t>(budget, INT64_MAX)),
              [&] { (void)dataset.iterate({.memory_bytes = budget, .on_error = on_error}); });
        }
      }
    }
    const Dataset grouped = numbers(10).padded_batch(size);
    EXPECT_EQ(test::values(grouped, {.memory_bytes = 1U << 20}).size(), 10U);
  }
}

/// 8 bytes each make it 2^64, which is 0 where it wraps around.
TEST(Budget, ComponentsThatNobodyCanHoldAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const auto one = [](Element) { return Element({{"x", Tensor::of<std::int64_t>({1}, {1})}}); };
  const Spec any({{"x", DType::i64, {Shape::kUnknown}}});
  const Spec huge({{"x", DType::i64, {kHuge}}});
  const Dataset ones = numbers(3).map(one, {.output = any});
  const auto first_error = [](const std::function<Dataset()>& make) -> std::string {
    try {
      Iterator iterator = make().iterate({.memory_bytes = 1U << 20});
      const Next next = iterator.next();
      return next.is_error() ? std::string(name_of(next.error().code())) : "none";
    } catch (const Error& error) {
      return std::string(name_of(error.code()));
    }
  };
  const std::vector<std::pair<std::string, std::function<Dataset()>>> kCases{
      {"padded", [&] { return ones.padded_batch(2, {.shapes = {{kHuge}}}); }},
      {"filled up", [&] { return numbers(3).padded_batch(kHuge).pad_batches(); }},
      {"declared",
       [&] { return numbers(3).map([](const Element&, Element&, Rng&) {}, {.output = huge}); }},
      {"batchwise",
       [&] { return numbers(3).map_batchwise([](const Element&, Element&) {}, {.output = huge}); }},
  };
  for (const auto& [name, make] : kCases) {
    const std::string code = first_error(make);
    EXPECT_TRUE(code == "out_of_range" || code == "resource_exhausted") << name << ": " << code;
  }
}

/// Each place where a batch stage is used has slots of its own.
TEST(Budget, ABatchStageThatIsUsedTwiceDoesNotStarveItself) {
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
      EXPECT_LT(seconds_since(start), 5.0) << test.name << " " << slots;
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

TEST(Budget, ACallerThatKeepsBatchesGetsMoreWhileThereIsRoom) {
  Iterator iterator = numbers(4096).batch(128).iterate({.memory_bytes = 1U << 20, .slots = 2});
  std::vector<Element> kept;
  for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
    kept.push_back(next.value());
  }
  ASSERT_EQ(kept.size(), 32U);
  for (std::size_t b = 0; b < kept.size(); ++b) {
    EXPECT_EQ(kept[b][0].values<std::int64_t>()[5], static_cast<std::int64_t>(b * 128 + 5));
  }
}

TEST(Budget, ACallerThatKeepsAllOfItGetsAnErrorAndCanGoOn) {
  // Eight batches of 1 KiB and no more.
  Iterator iterator = numbers(4096).batch(128).iterate({.memory_bytes = 8 << 10, .slots = 2});
  std::vector<Element> kept;
  const auto start = Clock::now();
  Next next = iterator.next();
  while (next.has_value()) {
    kept.push_back(next.value());
    next = Next(End{});
    next = iterator.next();
  }
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted);
  EXPECT_NE(std::string(next.error().what()).find("held"), std::string::npos);
  EXPECT_GE(kept.size(), 2U);
  EXPECT_LE(kept.size(), 8U);
  EXPECT_LT(seconds_since(start), 10.0);
  const std::size_t before = kept.size();
  kept.clear();
  std::size_t rest = 0;
  for (Next more = iterator.next(); !more.is_end(); more = iterator.next()) {
    EXPECT_TRUE(more.has_value());
    ++rest;
  }
  EXPECT_EQ(before + rest, 32U);
}

TEST(Budget, ASlowCallerIsNotAnError) {
  // Batches wait behind a map for longer than the engine's patience, and fill the budget.
  const auto same = [](Element element) { return element; };
  Iterator iterator =
      numbers(4096).batch(128).map(same).iterate({.memory_bytes = 8 << 10, .slots = 2});
  std::size_t count = 0;
  for (;;) {
    if (count == 1 || count == 9) std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    Next next = iterator.next();
    if (next.is_end()) break;
    EXPECT_TRUE(next.has_value()) << next.error().what();
    ++count;
  }
  EXPECT_EQ(count, 32U);
}

TEST(Budget, SlowWorkOnBatchesIsNotAnError) {
  for (const bool blocking : {false, true}) {
    const auto slow = [](Element element) {
      if (element[0].values<std::int64_t>()[0] == 128) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      }
      return element;
    };
    const Dataset dataset = numbers(2048).batch(128).map(slow, {.blocking = blocking});
    const auto errors = test::errors(dataset, {.threads = 2, .memory_bytes = 4 << 10, .slots = 2});
    EXPECT_TRUE(errors.empty()) << errors[0].what();
  }
}

TEST(Budget, ASlowStreamBesideAFullBudgetIsNotAnError) {
  const Dataset slow{make_generate_source(
      []() -> Generator {
        return [next = std::int64_t{0}](Element& out) mutable {
          if (next == 6) return false;
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          out = test::x_element(next++);
          return true;
        };
      },
      test::x_spec(), "slow")};
  for (const bool blocking : {false, true}) {
    const auto source = std::make_shared<ParetoSource>(
        ParetoSource::Options{.count = 2000, .most = 20000, .blocking = blocking});
    const Dataset full =
        Dataset(SourcePtr(source)).map_op(std::make_shared<DoubleOp>()).filter([](const Element&) {
          return true;
        });
    const auto errors = test::errors(zip({full, slow}), {.threads = 2, .memory_bytes = 256 << 10});
    EXPECT_TRUE(errors.empty()) << errors[0].what();
  }
}

TEST(Budget, ACacheLargerThanItIsAnErrorSoon) {
  const auto source =
      std::make_shared<ParetoSource>(ParetoSource::Options{.count = 200, .most = 20000});
  const Dataset dataset = Dataset(SourcePtr(source)).cache().batch(2);
  const auto start = Clock::now();
  Iterator iterator = dataset.iterate({.threads = 2, .memory_bytes = 128 << 10});
  Next next = iterator.next();
  while (next.has_value()) next = iterator.next();
  ASSERT_TRUE(next.is_error());
  EXPECT_EQ(next.error().code(), ErrorCode::resource_exhausted);
  EXPECT_LT(seconds_since(start), 5.0);
}

TEST(Budget, BytesStayAliveWhenTheRunIsGone) {
  std::vector<Element> kept;
  {
    const auto source = std::make_shared<ParetoSource>(ParetoSource::Options{.count = 20});
    Iterator iterator = Dataset(SourcePtr(source))
                            .map_op(std::make_shared<DoubleOp>())
                            .batch(3)
                            .iterate({.memory_bytes = 32 << 20});
    for (Next next = iterator.next(); next.has_value(); next = iterator.next()) {
      kept.push_back(*next);
    }
  }
  ASSERT_EQ(kept.size(), 7U);
  std::uint64_t index = 0;
  for (const Element& batch : kept) {
    for (std::int64_t row = 0; row < batch[0].dim(0); ++row, ++index) {
      const std::string_view text = batch[0].bytes_at(row);
      EXPECT_EQ(static_cast<std::uint64_t>(static_cast<unsigned char>(text.front())), index % 251);
      EXPECT_EQ(text.find_first_not_of(text.front()), std::string_view::npos);
    }
  }
  EXPECT_EQ(index, 20U);
}

}  // namespace
}  // namespace penstock
