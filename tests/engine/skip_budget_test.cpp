// How many bad elements a run skips, and that it ends where nothing else comes.
#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <penstock/sources.h>

#include "tests/conformance/takes.h"
#include "tests/engine/policies.h"
#include "tests/support/deflate.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/numbers.h"
#include "tests/support/records.h"
#include "tests/support/time_limit.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::all_of;
using test::numbers;
using test::stream;

Dataset failing_where(const Dataset& input, bool (*bad)(std::int64_t)) {
  return input.map([bad](Element element) {
    if (bad(test::x_of(element))) throw std::runtime_error("it is bad");
    return element;
  });
}

/// All of a run that ends in time, as text, and its errors.
std::pair<std::string, ErrorStats> run_in_time(const Dataset& dataset, const RunOptions& options,
                                               std::size_t most = SIZE_MAX) {
  Iterator iterator = dataset.iterate(options);
  const test::TimeLimit limit(60);
  std::string text;
  for (std::size_t i = 0; i < most; ++i) {
    const Next next = iterator.next();
    if (next.is_end()) break;
    text += next.is_error() ? "E " : ". ";
    if (next.is_error() && next.error().code() == ErrorCode::cancelled) break;
  }
  return {text, iterator.stats().errors};
}

/// Where a later stage skips an element in front, too, which other threads make later.
TEST(SkipBudget, LackOfMemoryBehindABadElement) {
  constexpr std::uint64_t kMemory = 1 << 20;
  const auto bytes = [](std::uint64_t, std::int64_t x) { return x == 10 ? 2 * kMemory : 100; };
  const Dataset values =
      numbers(20).map_op(std::make_shared<test::Takes>(bytes, 0, false)).filter([](const Element&) {
        return true;
      });
  const Dataset dataset = test::failing_at(values, 3);
  for (const int threads : {1, 4}) {
    const RunOptions options{
        .threads = threads, .memory_bytes = kMemory, .on_error = OnError::skip};
    const auto [text, errors] = run_in_time(dataset, options);
    EXPECT_EQ(text, ". . . . . . . . . E ") << threads << " threads";
    EXPECT_EQ(errors.count, 2U);
  }
}

/// Bad elements count when they are met, also where no batch is ever full.
TEST(SkipBudget, EndsARunThatGivesNothing) {
  const auto all_but_first = [](std::int64_t x) { return x > 0; };
  const auto beyond_ten = [](std::int64_t x) { return x >= 10; };
  struct Case {
    std::string name;
    std::function<Dataset(const Dataset&)> rest;
    bool (*bad)(std::int64_t);
    std::string expected;
    std::string message;
  };
  const std::vector<Case> cases{
      {"elements", [](const Dataset& d) { return d; }, all_but_first, ". E ",
       "11 bad elements of 12"},
      {"batch", [](const Dataset& d) { return d.batch(2); }, all_but_first, "E ",
       "11 bad elements of 12"},
      {"large batch", [](const Dataset& d) { return d.batch(256); }, all_but_first, "E ",
       "11 bad elements of 12"},
      {"later batch", [](const Dataset& d) { return d.batch(4); }, beyond_ten, ". . E ",
       "11 bad elements of 21"},
      {"whole batches", [](const Dataset& d) { return d.batch(5); }, beyond_ten, ". . E ",
       "11 bad elements of 21"},
  };
  for (const Case& test : cases) {
    for (const int threads : {1, 4}) {
      auto made = std::make_shared<std::atomic<int>>(0);
      const Dataset dataset =
          test.rest(failing_where(test::counting(numbers(2'000'000), made), test.bad));
      const auto [text, errors] =
          run_in_time(dataset, {.threads = threads, .on_error = OnError::skip, .max_errors = 10});
      EXPECT_EQ(text, test.expected) << test.name;
      EXPECT_EQ(errors.count, 11U) << test.name;
      EXPECT_LT(*made, 500'000) << test.name;
    }
  }
}

/// Nobody knows whose turn it is while the first element is made: few are tried in vain meanwhile.
TEST(SkipBudget, BoundsWhatIsTriedBehindASlowElement) {
  constexpr int kFew = 100'000;
  auto made = std::make_shared<std::atomic<int>>(0);
  const auto wait_until_no_more_is_made = [made] {
    for (int pauses = 0, same = 0, before = 0; pauses < 200 && same < 5 && *made < kFew; ++pauses) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      same = *made == before ? same + 1 : 0;
      before = *made;
    }
  };
  const Dataset dataset = test::counting(numbers(2'000'000), made).map([=](Element element) {
    if (test::x_of(element) == 0) wait_until_no_more_is_made();
    if (test::x_of(element) > 0) throw std::runtime_error("it is bad");
    return element;
  });
  const auto [text, errors] =
      run_in_time(dataset.batch(2), {.threads = 4, .on_error = OnError::skip, .max_errors = 10});
  EXPECT_EQ(text, "E ");
  EXPECT_EQ(errors.count, 11U);
  EXPECT_LT(*made, kFew);
}

/// An indexed source of 0 … 4, of which those from `good` on can be read.
class UnreadableSource final : public Source {
 public:
  explicit UnreadableSource(std::int64_t good) : good_(good) {}
  std::string name() const override { return "unreadable"; }
  void describe(Description&) const override {}
  Spec spec() const override { return test::x_spec(); }
  std::optional<std::uint64_t> size() const override { return 5; }
  void read(std::span<WorkItem> items, ReadContext&) const override {
    for (WorkItem& item : items) {
      const auto x = static_cast<std::int64_t>(item.index);
      if (x < good_) {
        item.status = Status(ErrorCode::data_loss, "unreadable");
      } else {
        item.element = test::x_element(x);
      }
    }
  }

 private:
  std::int64_t good_;
};

Dataset unreadable(std::int64_t good) {
  return Dataset(std::make_shared<UnreadableSource>(good));
}

/// A stream of three errors.
Dataset errors_only() {
  return generate(
      []() -> Generator {
        return [left = 3](Element&) mutable -> bool {
          if (left-- == 0) return false;
          throw std::runtime_error("bad");
        };
      },
      test::x_spec(), "errors");
}

/// A pass in which each element failed gives nothing, and ends an infinite repeat.
TEST(SkipBudget, PassOfBadElements) {
  const auto all = [](std::int64_t) { return true; };
  const auto but_last = [](std::int64_t x) { return x < 4; };
  const Dataset bad = failing_where(numbers(5), all).repeat();
  const Dataset one = failing_where(numbers(5), but_last).repeat();
  struct Case {
    std::string name;
    Dataset dataset;
    std::string expected;
  };
  const std::vector<Case> cases{
      {"elements", bad, ""},
      {"batch", bad.batch(2), ""},
      {"shuffle", bad.shuffle({.buffer = 3}).batch(2), ""},
      {"map behind", bad.map([](Element e) { return e; }).batch(2), ""},
      {"twice", bad.repeat().batch(2), ""},
      {"stream", failing_where(stream({1, 2, 3}), all).repeat().batch(2), ""},
      {"records", unreadable(5).repeat(), ""},
      {"batches of records", unreadable(5).shuffle().repeat().batch(2), ""},
      {"records of two", unreadable(5).concatenate(unreadable(5).take(0)).repeat(), ""},
      {"a stream's own", errors_only().repeat(), ""},
      {"batches of a stream's own", errors_only().repeat().batch(2), ""},
      {"one good record", unreadable(4).repeat(), ". . . . . . "},
      {"one good", one, ". . . . . . "},
      {"batches of one good", one.batch(2), ". . . . . . "},
      {"zip with what continues",
       zip({bad, numbers(5).repeat().map(
                     [](const Element& e) {
                       return Element({{"y", e["x"]}});
                     },
                     {.output = Spec({{"y", DType::i64, {}}})})}),
       ""},
  };
  for (const Case& test : cases) {
    for (const int threads : {1, 4}) {
      const RunOptions options{.threads = threads, .on_error = OnError::skip};
      const auto [text, errors] = run_in_time(test.dataset, options, 6);
      EXPECT_EQ(text, test.expected) << test.name;
      if (test.expected.empty()) {
        EXPECT_LE(errors.count, 5U) << test.name;
      }
    }
  }
  // Each element is made once, and what was good comes out as ever.
  auto made = std::make_shared<std::atomic<int>>(0);
  const Dataset counted =
      failing_where(test::counting(numbers(5), made), but_last).repeat().take(4);
  EXPECT_EQ(test::run(counted, {.threads = 1, .on_error = OnError::skip, .max_error_share = 1}),
            "4 4 4 4");
  EXPECT_EQ(test::run(unreadable(3).repeat().take(9), {.on_error = OnError::skip}), "3 4 3")
      << "take counts records";
  Iterator iterator = one.batch(2).iterate({.on_error = OnError::skip});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(test::text_of(*iterator.next()), "4 4");
  Iterator restored = one.batch(2).restore(iterator.save(), {.on_error = OnError::skip});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(test::text_of(*restored.next()), "4 4");
}

/// Who stops before the end of an epoch asks whether more than half was bad so far.
TEST(SkipBudget, MoreThanHalfSoFar) {
  struct Case {
    std::int64_t bad;
    RunOptions options;
    int batches;
    bool mostly_bad;
  };
  RunOptions skip{.on_error = OnError::skip};
  RunOptions by_share = skip;
  by_share.max_error_share = 1;
  for (const Case& test : {Case{600, skip, 2, true}, Case{10, skip, 5, false},
                           Case{600, by_share, 2, false}, Case{0, skip, 2, false}}) {
    for (const int threads : {1, 4}) {
      RunOptions options = test.options;
      options.threads = threads;
      Iterator iterator = numbers(1000)
                              .map([bad = test.bad](Element element) {
                                if (test::x_of(element) < bad)
                                  throw std::runtime_error("it is bad");
                                return element;
                              })
                              .batch(10)
                              .iterate(options);
      const test::TimeLimit limit(60);
      for (int i = 0; i < test.batches; ++i) ASSERT_FALSE(iterator.next().is_error());
      const std::optional<Error> found = iterator.stats().errors.mostly_bad;
      EXPECT_EQ(found.has_value(), test.mostly_bad) << test.bad << (found ? found->what() : "");
      if (found) {
        EXPECT_NE(found->cause().find("more than half"), std::string::npos);
      }
      ASSERT_FALSE(iterator.next().is_error());  // it continues
    }
  }
}

/// Without a budget of the user's, a run that skips more than half of its elements gets an error at
/// the end of its epoch, and ends.
TEST(SkipBudget, MoreThanHalf) {
  const auto below = [](std::int64_t most) {
    return [most](const Element& e) { return test::x_of(e) < most; };
  };
  const auto failing_below = [&](std::int64_t count, std::int64_t bad) {
    return numbers(count).map([bad](Element element) {
      if (test::x_of(element) < bad) throw std::runtime_error("it is bad");
      return element;
    });
  };
  const RunOptions skip{.threads = 2, .on_error = OnError::skip};
  RunOptions by_count = skip;
  by_count.max_errors = 100;
  RunOptions by_share = skip;
  by_share.max_error_share = 1;
  struct Case {
    std::string name;
    Dataset dataset;
    RunOptions options;
    std::string expected;
  };
  const std::vector<Case> cases{
      {"half", failing_below(10, 5), skip, ". . . . . "},
      {"more", failing_below(10, 6), skip, ". . . . E "},
      {"all", failing_below(10, 10), skip, "E "},
      {"all of four, twice", failing_below(4, 4), skip, ""},
      {"a count allows it", failing_below(10, 6), by_count, ". . . . "},
      {"a share allows it", failing_below(10, 10), by_share, ""},
      {"batches", failing_below(100, 51).batch(7), skip, ". . . . . . . E "},
      {"half in batches", failing_below(100, 50).batch(10), skip, ". . . . . "},
      {"the last are good", failing_below(1000, 490).batch(1000), skip, ". "},
      {"most is dropped by a filter", failing_below(100, 10).filter(below(11)), skip, ". "},
      {"behind a filter", failing_below(100, 60).filter(below(100)).batch(40), skip, ". E "},
      {"nested",
       numbers(1).flat_map([&](const Element&) { return failing_below(20, 11); }, test::x_spec()),
       skip, ". . . . . . . . . E "},
      {"half of a nested one",
       numbers(1).flat_map([&](const Element&) { return failing_below(20, 10); }, test::x_spec()),
       skip, ". . . . . . . . . . "},
  };
  for (const Case& test : cases) {
    RunOptions options = test.options;
    options.epochs = 2;
    Iterator iterator = test.dataset.iterate(options);
    const test::TimeLimit limit(60);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::string text;
      for (Next next = iterator.next(); !next.is_end(); next = iterator.next()) {
        text += next.is_error() ? "E " : ". ";
        if (!next.is_error()) continue;
        EXPECT_NE(next.error().cause().find("more than half"), std::string::npos);
        EXPECT_NE(next.error().cause().find("it is bad"), std::string::npos);
      }
      EXPECT_EQ(text, test.expected) << test.name;
      const bool ended = text.find('E') != std::string::npos;
      EXPECT_EQ(iterator.next_epoch(), epoch == 0 && !ended) << test.name;
      if (ended) break;
    }
  }
}

/// Where a run stopped and continued makes no difference to what share of it is bad.
TEST(SkipBudget, IsTheSameForARunThatWasRestored) {
  const auto twentieth = [](std::int64_t x) { return x % 20 == 7; };
  const auto first = [](std::int64_t x) { return x == 0; };
  const auto worse = [](std::int64_t x) { return x % 20 == 7 || (x > 4000 && x % 2 == 1); };
  const auto few = [](const Element& e) { return test::x_of(e) % 50 == 0; };
  const auto all = [](const Element&) { return true; };
  struct Case {
    std::string name;
    Dataset dataset;
    std::uint64_t epochs;
    bool exceeds;
  };
  const std::vector<Case> cases{
      {"few behind a filter", failing_where(numbers(6000), twentieth).filter(few).batch(2), 2,
       false},
      {"too many behind a filter", failing_where(numbers(8000), worse).filter(few).batch(2), 1,
       true},
      {"batches", failing_where(numbers(600), twentieth).batch(7), 3, false},
      {"elements", failing_where(numbers(300), twentieth), 2, false},
      {"the first of each epoch", failing_where(numbers(20), first).batch(3), 12, false},
      {"the first of each epoch, values", failing_where(numbers(20), first), 12, false},
      {"the first of each pass", failing_where(numbers(20), first).filter(all).repeat(12), 1,
       false},
      {"the first of each dataset",
       numbers(12).flat_map(
           [=](const Element&) { return failing_where(numbers(20), first).filter(all); },
           test::x_spec()),
       1, false},
      {"two stages",
       failing_where(failing_where(numbers(2000), twentieth).filter(few),
                     [](std::int64_t x) { return x % 1000 == 0; })
           .batch(2),
       2, false},
  };
  for (const Case& test : cases) {
    const RunOptions options{
        .epochs = test.epochs, .threads = 2, .on_error = OnError::skip, .max_error_share = 0.2};
    Iterator whole = test.dataset.iterate(options);
    const std::string expected = all_of(whole);
    EXPECT_EQ(expected.find("exceed the error budget") != std::string::npos, test.exceeds)
        << test.name << expected;
    for (const std::size_t stop : {0, 1, 5, 20, 40, 60}) {
      Iterator begun = test.dataset.iterate(options);
      std::string text = all_of(begun, stop);
      if (text.find("error") != std::string::npos) continue;
      Iterator restored = test.dataset.restore(begun.save(), options);
      text += all_of(restored);
      if (test.name == "the first of each pass" || test.name == "the first of each dataset") {
        // What passes and datasets that are over came to is not part of a position.
        text.resize(text.find(';'));
        EXPECT_EQ(text, expected.substr(0, text.size())) << test.name << " " << stop;
      } else {
        EXPECT_EQ(text, expected) << test.name << " " << stop;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
