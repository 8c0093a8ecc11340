// Windows and groups as datasets.
#include <gtest/gtest.h>

#include "tests/conformance/rows.h"
#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace semantics_windows_test {

using test::expect_error;
using test::expect_over_inputs;
using test::expect_vectors;
using test::failing_at;
using test::iota;
using test::numbers;
using test::run;
using test::runs_of;
using test::x_of;
using test::x_spec;

TEST(Window, SlidesOverTheElements) {
  const auto window = [](std::int64_t size, WindowOptions options = {}) {
    return [=](Dataset d) { return d.window(size, options); };
  };
  expect_over_inputs("3", iota(7), window(3), "0 1 2 | 3 4 5 | 6");
  expect_over_inputs("overlapping with a stride", iota(7),
                     window(3, {.shift = 1, .stride = 2, .drop_remainder = true}),
                     "0 2 4 | 1 3 5 | 2 4 6");
  expect_over_inputs("shift and stride of 2", iota(7), window(3, {.shift = 2, .stride = 2}),
                     "0 2 4 | 2 4 6 | 4 6 | 6");
  expect_over_inputs("with gaps", iota(10), window(2, {.shift = 5}), "0 1 | 5 6");
  expect_over_inputs("shift 1, dropping", iota(7), window(3, {.shift = 1, .drop_remainder = true}),
                     "0 1 2 | 1 2 3 | 2 3 4 | 3 4 5 | 4 5 6");
  expect_over_inputs("shift 1", iota(7), window(3, {.shift = 1}),
                     "0 1 2 | 1 2 3 | 2 3 4 | 3 4 5 | 4 5 6 | 5 6 | 6");
  expect_over_inputs("of nothing", {}, window(3), "");
  expect_over_inputs("exactly", iota(6), window(3), "0 1 2 | 3 4 5");
  expect_over_inputs("exactly, dropping", iota(6), window(3, {.drop_remainder = true}),
                     "0 1 2 | 3 4 5");
  expect_over_inputs("one short", iota(5), window(3, {.drop_remainder = true}), "0 1 2");
  expect_over_inputs("larger than all", iota(2), window(5), "0 1");
  expect_over_inputs("larger than all, dropping", iota(2), window(5, {.drop_remainder = true}), "");
}

TEST(Window, KnowsHowManyThereAre) {
  for (const std::int64_t n : {0, 1, 2, 3, 6, 7, 8}) {
    for (const std::int64_t shift : {0, 1, 2, 5}) {
      for (const bool drop : {false, true}) {
        const Dataset dataset =
            numbers(n).window(3, {.shift = shift, .stride = 2, .drop_remainder = drop});
        Iterator iterator = dataset.iterate();
        std::int64_t count = 0;
        while (iterator.next().has_value()) ++count;
        EXPECT_EQ(dataset.cardinality(), count) << n << " " << shift << " " << drop;
      }
    }
  }
  EXPECT_EQ(numbers(3).repeat().window(2).cardinality(), kInfinite);
  EXPECT_EQ(numbers(9).window(2).spec()[0].shape, Shape{Shape::kUnknown});
  EXPECT_EQ(numbers(9).window(2, {.drop_remainder = true}).spec()[0].shape, Shape{2});
}

TEST(Window, RefusesWhatIsNotPositive) {
  const std::vector<std::pair<std::int64_t, WindowOptions>> wrong{
      {0, {}},
      {-1, {}},
      {3, {.shift = -1}},
      {3, {.stride = 0}},
      {INT64_MAX, {.shift = 1, .stride = 2}}};
  for (const auto& [size, options] : wrong) {
    expect_error(ErrorCode::invalid_argument, "",
                 [&, &size = size, &options = options] { (void)numbers(3).window(size, options); });
  }
}

TEST(Window, IsADatasetForItsFunction) {
  const auto batched = [](const Dataset& window) { return window.batch(2); };
  const auto even = [](const Dataset& window) {
    return window.filter([](const Element& e) { return x_of(e) % 2 == 0; });
  };
  const auto nothing = [](const Dataset& window) { return window.take(0); };
  expect_vectors({
      {"batched", numbers(7).window(3, batched), "0 1 | 2 | 3 4 | 5 | 6"},
      {"filtered", numbers(7).window(3, even, {.shift = 2}), "0 2 2 4 4 6 6"},
      {"of which nothing is kept", numbers(7).window(3, nothing), ""},
  });
  EXPECT_EQ(numbers(7).window(3, batched).spec(), numbers(7).batch(2).spec());
  EXPECT_THROW((void)numbers(7).window(3, WindowFn()), Error);
}

TEST(Window, OfTuplesIsATupleOfWindows) {
  EXPECT_EQ(run(numbers(3).enumerate(5).window(2)), "(0 1, 5 6) | (2, 7)");
}

// An element that failed keeps its number; its error comes once, and its windows are left out.
TEST(Window, FailedElement) {
  const std::vector<std::tuple<Dataset, std::string, std::string>> cases{
      {failing_at(numbers(6), 2).window(2), "0 1 | E | 4 5", "0 1 | 3 4 | 5"},
      {failing_at(numbers(6), 2).window(3, {.shift = 1}), "E | 3 4 5 | 4 5 | 5",
       "0 1 3 | 1 3 4 | 3 4 5 | 4 5 | 5"},
      {failing_at(numbers(8), 3).window(2, {.shift = 4}), "0 1 | E | 4 5", "0 1 | 5 6"},
      {failing_at(numbers(5), 4).window(2), "0 1 | 2 3 | E", "0 1 | 2 3"},
  };
  for (const auto& [dataset, fail, skip] : cases) {
    expect_vectors({{"fail", dataset, fail}, {"skip", dataset, skip, {.on_error = OnError::skip}}});
  }
}

TEST(Window, DrawsOtherRandomNumbersInEachWindow) {
  const auto draw = [](Element element, Rng& rng) {
    element.set("x", Tensor::scalar(static_cast<std::int64_t>(rng.below(1000000))));
    return element;
  };
  const Dataset dataset =
      numbers(4).window(3, [&](const Dataset& window) { return window.map(draw); }, {.shift = 1});
  const std::vector<std::int64_t> all = test::values(dataset, {.threads = 2});
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(all, test::values(dataset, {.threads = 1}));
}

TEST(GroupByWindow, GivesFullWindowsThenLeftoversInTheOrderOfKeys) {
  const auto parity = [](const Element& e) { return x_of(e) % 2; };
  expect_over_inputs(
      "parity", iota(10), [=](Dataset d) { return d.group_by_window(parity, {.size = 5}); },
      "0 2 4 6 8 | 1 3 5 7 9");
  expect_over_inputs(
      "runs", {0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0},
      [](Dataset d) { return d.group_by_window(x_of, {.size = 4}); },
      "0 0 0 0 | 1 1 1 1 | 0 0 0 | 1");
  expect_over_inputs(
      "negative keys", {3, -1, 2, -7},
      [](Dataset d) { return d.group_by_window(x_of, {.size = 2}); }, "-7 | -1 | 2 | 3");
  expect_over_inputs(
      "of nothing", {}, [](Dataset d) { return d.group_by_window(x_of, {.size = 2}); }, "");
}

TEST(GroupByWindow, AsksForTheSizeOfAKey) {
  GroupOptions options;
  options.size_of = [](std::int64_t key) { return key + 1; };
  const auto parity = [](const Element& e) { return x_of(e) % 2; };
  expect_vectors({{"", numbers(6).group_by_window(parity, options), "0 | 2 | 1 3 | 4 | 5"}});
  options.size_of = [](std::int64_t key) { return key - 3; };
  expect_vectors(
      {{"not positive", numbers({3, 4, 3, 4}).group_by_window(x_of, options), "E | 4 | E | 4"}});
}

TEST(GroupByWindow, ReducesEachWindow) {
  const auto parity = [](const Element& e) { return x_of(e) % 2; };
  GroupOptions options{.size = 2, .reduce = [](std::int64_t key, const Dataset& window) {
                         return key == 0 ? window.batch(2) : window.take(1).batch(1);
                       }};
  expect_vectors({{"", numbers(7).group_by_window(parity, options), "0 2 | 1 | 4 6 | 5"}});
  options.output = x_spec();
  expect_vectors({{"declared wrong", numbers(2).group_by_window(parity, options), "E E"}});
}

TEST(GroupByWindow, FailedElement) {
  const auto parity = [](const Element& e) {
    if (x_of(e) == 5) throw std::runtime_error("no key");
    return x_of(e) % 2;
  };
  const Dataset dataset = failing_at(numbers(8), 2).group_by_window(parity, {.size = 2});
  expect_vectors({{"fail", dataset, "E | 1 3 | 0 4 | E | 6 | 7"},
                  {"skip", dataset, "1 3 | 0 4 | 6 | 7", {.on_error = OnError::skip}}});
}

TEST(GroupByWindow, RefusesWrongOptions) {
  const auto wrong = [](KeyFn key, GroupOptions options) {
    expect_error(ErrorCode::invalid_argument, "",
                 [&] { (void)numbers(3).group_by_window(key, options); });
  };
  wrong({}, {.size = 2});
  wrong(x_of, {});
  wrong(x_of, {.size = -1});
  wrong(x_of, {.size = 2, .size_of = [](std::int64_t) { return 1; }});
}

TEST(Fingerprint, SeesWhatIsDoneToAWindow) {
  const auto refused = [](const Dataset& a, const Dataset& b) {
    const std::string state = a.iterate().save();
    EXPECT_NO_THROW((void)a.restore(state));
    expect_error(ErrorCode::invalid_argument, "differs", [&] { (void)b.restore(state); });
  };
  const auto by = [](std::int64_t size) {
    return [size](const Dataset& window) { return window.batch(size); };
  };
  refused(numbers(5).window(4, by(2)), numbers(5).window(4, by(3)));
  refused(numbers(5).window(4), numbers(5).window(3));
  refused(numbers(5).group_by_window(x_of, {.size = 2, .name = "a"}),
          numbers(5).group_by_window(x_of, {.size = 2, .name = "b"}));
  refused(runs_of({1}).bucket_by_length({.tokens = 5}),
          runs_of({1}).bucket_by_length({.tokens = 6}));
}

}  // namespace semantics_windows_test
}  // namespace penstock
