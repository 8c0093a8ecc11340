// tf.data's documented results of interleave, flat_map and the mixtures.
#include <gtest/gtest.h>

#include <climits>
#include <sstream>

#include "tests/support/errors.h"
#include "tests/support/time_limit.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace semantics_interleave_test {

using test::expect_error;
using test::expect_over_inputs;
using test::expect_vectors;
using test::iota;
using test::NamedDataset;
using test::numbers;
using test::run;
using test::stream;
using test::x_of;
using test::x_spec;

/// "4444 55" as "4 4 4 4 5 5".
std::string spread(const std::string& digits) {
  std::string text;
  for (const char digit : digits) {
    if (digit == ' ') continue;
    if (!text.empty()) text += ' ';
    text += digit;
  }
  return text;
}

using Inner = std::function<Dataset(std::vector<std::int64_t>)>;

/// Nested datasets of every kind.
std::vector<std::pair<std::string, Inner>> inners() {
  return {
      {"indexed", [](std::vector<std::int64_t> v) { return numbers(std::move(v)); }},
      {"stream", [](std::vector<std::int64_t> v) { return stream(std::move(v)); }},
      {"mapped",
       [](std::vector<std::int64_t> v) {
         return numbers(std::move(v)).map([](Element element) { return element; });
       }},
      {"filtered",
       [](std::vector<std::int64_t> v) {
         v.push_back(-1);
         return numbers(std::move(v)).filter([](const Element& e) { return x_of(e) >= 0; });
       }},
      {"unbatched",
       [](std::vector<std::int64_t> v) { return numbers(std::move(v)).batch(2).unbatch(); }},
      {"cached", [](std::vector<std::int64_t> v) { return numbers(std::move(v)).cache(); }},
      {"nested",
       [](std::vector<std::int64_t> v) {
         return numbers(std::move(v))
             .flat_map([](const Element& e) { return numbers(std::vector<std::int64_t>{x_of(e)}); },
                       x_spec());
       }},
  };
}

/// x, `times` times over, or x times.
FlatMapFn repeated(const Inner& inner, std::int64_t times = -1) {
  return [=](const Element& element) {
    const std::int64_t x = x_of(element);
    return inner(std::vector<std::int64_t>(static_cast<std::size_t>(times < 0 ? x : times), x));
  };
}

struct Case {
  std::vector<std::int64_t> input;
  std::int64_t times;
  int cycle;
  int block;
  std::string expected;
};

TEST(Interleave, TakesTurns) {
  const std::vector<std::int64_t> twice{4, 5, 6, 4, 5, 6};
  const std::vector<Case> cases{
      {{1, 2, 3, 4, 5}, 6, 2, 4, "1111 2222 11 22 3333 4444 33 44 5555 55"},
      {twice, -1, 1, 1, "4444 55555 666666 4444 55555 666666"},
      {twice, -1, 2, 1, "4 5 4 5 4 5 4 5 5 6 6 4 6 4 6 4 6 4 6 5 6 5 6 5 6 5 6 5 6 6"},
      {twice, -1, 2, 3, "444 555 4 55 666 444 666 4 555 666 55 666"},
      {twice, -1, 7, 2, "44 55 66 44 55 66 44 55 66 44 55 66 5 66 5 66"},
      {twice, -1, 2, 2, "44 55 44 55 5 66 44 66 44 66 55 66 55 66 5 66"},
      {{4, 0, 6, 4, 0, 6}, -1, 2, 1, "4 4 6 4 6 4 6 6 4 6 4 6 4 4 6 6 6 6 6 6"},
      {{}, -1, 2, 1, ""},
      {{0, 0, 0}, -1, 2, 1, ""},
      {{3}, -1, 4, 2, "333"},
  };
  for (const Case& test : cases) {
    for (const auto& [name, inner] : inners()) {
      expect_over_inputs(
          name + ", cycle " + std::to_string(test.cycle), test.input,
          [&, &make = inner](Dataset d) {
            return d.interleave(repeated(make, test.times), x_spec(),
                                {.cycle = test.cycle, .block = test.block});
          },
          spread(test.expected));
    }
  }
}

TEST(Interleave, CycleOfOne) {
  for (const auto& [name, inner] : inners()) {
    for (const int block : {1, 2, 100}) {
      const Dataset input = numbers({3, 0, 1, 2});
      expect_vectors(
          {{name, input.flat_map(repeated(inner), x_spec()), "3 3 3 1 2 2"},
           {name, input.interleave(repeated(inner), x_spec(), {.cycle = 1, .block = block}),
            "3 3 3 1 2 2"}});
    }
  }
}

TEST(Interleave, DefaultOrder) {
  std::ostringstream expected;
  for (int round = 0; round < 2; ++round) {
    for (int x = 0; x < 16; ++x) expected << (round + x > 0 ? " " : "") << x;
  }
  for (int x = 16; x < 20; ++x) expected << " " << x;
  for (int x = 16; x < 20; ++x) expected << " " << x;
  const auto [name, inner] = inners()[0];
  expect_vectors(
      {{"default cycle", numbers(20).interleave(repeated(inner, 2), x_spec()), expected.str()}});
}

TEST(Interleave, PlacesOfErrors) {
  const auto fn = [](const Element& element) {
    if (x_of(element) == 1) throw std::runtime_error("no dataset for 1");
    return numbers(std::vector<std::int64_t>{x_of(element), x_of(element)});
  };
  const auto inside = [](const Element& element) {
    return test::failing_at(numbers({x_of(element), 10 + x_of(element)}), 11);
  };
  const Dataset bad_fn = numbers(3).interleave(fn, x_spec(), {.cycle = 2, .block = 1});
  const Dataset bad_inside = numbers(3).interleave(inside, x_spec(), {.cycle = 2, .block = 1});
  const Dataset bad_input =
      test::failing_at(numbers(3), 1)
          .interleave(repeated(inners()[0].second, 2), x_spec(), {.cycle = 2});
  expect_vectors({
      {"the function", bad_fn, "0 E 2 0 2"},
      {"the function, skipped", bad_fn, "0 2 0 2", {.on_error = OnError::skip}},
      {"an element inside", bad_inside, "0 1 10 E 2 12"},
      {"an element inside, skipped", bad_inside, "0 1 10 2 12", {.on_error = OnError::skip}},
      {"the input", bad_input, "0 E 2 0 2"},
      {"the input, skipped", bad_input, "0 2 0 2", {.on_error = OnError::skip}},
  });
}

TEST(Interleave, NestedDatasetOfAnotherSpec) {
  const Dataset wrong =
      numbers(2).flat_map([](const Element&) { return numbers(2).enumerate(); }, x_spec());
  const std::vector<Error> errors = test::errors(wrong);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].code(), ErrorCode::invalid_argument);
  EXPECT_NE(std::string(errors[0].what()).find("index: i64"), std::string::npos);
}

TEST(Interleave, UnopenableNestedDataset) {
  const Dataset wrong = numbers(3).flat_map(
      [](const Element& element) {
        if (x_of(element) != 1) return numbers(std::vector<std::int64_t>{x_of(element)});
        return Dataset(std::make_shared<test::BrokenSource>()).repeat(2);
      },
      x_spec());
  expect_vectors({{"broken", wrong, "0 E 2"}});
}

TEST(Interleave, RefusesWrongArguments) {
  const auto fn = [](const Element&) { return numbers(1); };
  for (const int wrong : {0, -1, -16}) {
    expect_error(ErrorCode::invalid_argument, "cycle",
                 [&] { (void)numbers(3).interleave(fn, x_spec(), {.cycle = wrong}); });
    expect_error(ErrorCode::invalid_argument, "block",
                 [&] { (void)numbers(3).interleave(fn, x_spec(), {.cycle = 2, .block = wrong}); });
  }
  expect_error(ErrorCode::invalid_argument, "no function",
               [] { (void)numbers(3).interleave({}, x_spec()); });
  expect_error(ErrorCode::invalid_argument, "flat_map",
               [] { (void)numbers(3).flat_map({}, x_spec()); });
  expect_error(ErrorCode::invalid_argument, "at most 1048576",
               [&] { (void)numbers(3).interleave(fn, x_spec(), {.cycle = INT_MAX}); });
}

Dataset constant(std::int64_t value, std::int64_t count) {
  return numbers(std::vector<std::int64_t>(static_cast<std::size_t>(count), value));
}

TEST(ChooseFrom, FollowsTheChoices) {
  const std::vector<std::int64_t> rounds{0, 1, 2, 0, 1, 2, 0, 1, 2};
  const std::vector<std::int64_t> sorted{0, 0, 0, 1, 1, 1, 2, 2, 2};
  for (const NamedDataset& choice : test::inputs_of(rounds)) {
    expect_vectors(
        {{choice.name,
          choose_from({constant(7, 1).repeat(), constant(8, 3), stream({9, 9, 9})}, choice.dataset),
          "7 8 9 7 8 9 7 8 9"}});
  }
  const std::vector<Dataset> uneven{constant(7, 2), constant(8, 1).repeat(),
                                    constant(9, 1).repeat()};
  expect_vectors({
      {"stop", choose_from(uneven, numbers(sorted)), "7 7"},
      {"skip", choose_from(uneven, numbers(sorted), false), "7 7 8 8 8 9 9 9"},
      {"no choices", choose_from(uneven, numbers(0)), ""},
      {"an exhausted pick uses up its choice",
       choose_from({constant(7, 1), constant(8, 2)}, numbers({0, 0, 1, 0, 1, 1}), false), "7 8 8"},
      {"one infinite",
       choose_from({constant(7, 1).repeat(), constant(8, 1)}, numbers({0, 1}).repeat()), "7 8 7"},
      {"from nothing", choose_from({numbers(0), numbers(3)}, numbers({0, 1}), false), "0"},
  });
}

TEST(ChooseFrom, EndsWithTheLastOfItsInputsWhateverIsChosen) {
  const test::TimeLimit limit(60);
  const Dataset always = numbers({0, 1}).repeat();
  expect_vectors({
      {"one", choose_from({numbers(3)}, numbers({0}).repeat(), false), "0 1 2"},
      {"two", choose_from({numbers(3), constant(8, 1)}, always, false), "0 8 1 2"},
      {"of nothing", choose_from({numbers(0), stream({})}, always, false), ""},
      {"a choice too many", choose_from({numbers(1)}, numbers({0, 0, 5}), false), "0"},
      {"inside of another",
       numbers(2).flat_map(
           [=](const Element&) {
             return choose_from({numbers(2), numbers(1)}, always, false);
           },
           x_spec()),
       "0 0 1 0 0 1"},
  });
}

TEST(ChooseFrom, ChoiceOutOfRange) {
  for (const std::int64_t wrong : {2L, -1L, 1L << 40}) {
    const Dataset dataset = choose_from({numbers({7, 7}), numbers({8, 8})}, numbers({0, wrong, 1}));
    expect_vectors({{"choice", dataset, "7 E 8"}});
    const std::vector<Error> errors = test::errors(dataset);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].code(), ErrorCode::mismatch);
    EXPECT_NE(std::string(errors[0].what()).find("out of range"), std::string::npos);
  }
}

TEST(ChooseFrom, RefusesWrongArguments) {
  const Dataset two = numbers(2);
  expect_error(ErrorCode::invalid_argument, "no inputs", [&] { (void)choose_from({}, two); });
  expect_error(ErrorCode::invalid_argument, "choices",
               [&] { (void)choose_from({two}, two.batch(2)); });
  expect_error(ErrorCode::invalid_argument, "choose_from", [&] {
    (void)choose_from({two, two.enumerate()}, two);
  });
}

TEST(SampleFrom, DrawsByWeight) {
  expect_vectors({
      {"never a weight of 0, stopping",
       sample_from({constant(0, 5), constant(1, 2)}, {0, 1}, {.stop_on_empty = true}), "1 1"},
      {"never a weight of 0, continuing", sample_from({constant(0, 5), constant(1, 2)}, {0, 1}),
       "1 1"},
      {"all weights 0", sample_from({constant(0, 5), constant(1, 2)}, {0, 0}), ""},
      {"all weights 0, stopping",
       sample_from({constant(0, 5), constant(1, 2)}, {0, 0}, {.stop_on_empty = true}), ""},
      {"one input", sample_from({numbers(4)}, {0.25}), "0 1 2 3"},
      {"empty inputs", sample_from({numbers(0), numbers(0)}, {1, 1}), ""},
      {"an empty input, continuing", sample_from({numbers(0), numbers(3)}, {1, 1}), "0 1 2"},
  });
}

TEST(SampleFrom, GoesOnUntilAllAreExhausted) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Dataset dataset =
        sample_from({numbers(5), numbers({10, 11}), stream({20, 21, 22})}, {0.7, 0.2, 0.1});
    const std::vector<std::int64_t> all = test::values(dataset, {.seed = seed, .threads = 2});
    // Without replacement and in order within each input; nothing is lost.
    std::vector<std::int64_t> sorted = all;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](std::int64_t a, std::int64_t b) { return a / 10 < b / 10; });
    EXPECT_EQ(sorted, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 10, 11, 20, 21, 22}));
  }
}

TEST(SampleFrom, StopAtAnExhaustedInput) {
  bool other_came_after = false;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Dataset dataset =
        sample_from({constant(0, 2), constant(1, 1000)}, {0.5, 0.5}, {.stop_on_empty = true});
    const std::vector<std::int64_t> all = test::values(dataset, {.seed = seed, .threads = 1});
    EXPECT_LT(all.size(), 100U);
    EXPECT_LE(std::count(all.begin(), all.end(), 0), 2);
    const auto zeros = std::count(all.begin(), all.end(), 0);
    if (zeros == 2 && all.back() == 1) other_came_after = true;
  }
  EXPECT_TRUE(other_came_after);
}

TEST(SampleFrom, Proportions) {
  const Dataset dataset = sample_from(
      {constant(0, 1).repeat(), constant(1, 1).repeat(), constant(2, 1).repeat()}, {2, 5, 3});
  std::array<double, 3> count{};
  Iterator iterator = dataset.iterate({.seed = 11, .threads = 1});
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<std::size_t>(x_of(*iterator.next()))];
  // sigma is at most 0.0025.
  EXPECT_NEAR(count[0] / kDraws, 0.2, 0.01);
  EXPECT_NEAR(count[1] / kDraws, 0.5, 0.01);
  EXPECT_NEAR(count[2] / kDraws, 0.3, 0.01);
}

TEST(SampleFrom, OneInfiniteInput) {
  const Dataset dataset = sample_from({constant(0, 1).repeat(), constant(1, 3)}, {0.5, 0.5});
  EXPECT_EQ(dataset.cardinality(), kInfinite);
  Iterator iterator = dataset.iterate({.threads = 2});
  int ones = 0;
  for (int i = 0; i < 1000; ++i) ones += x_of(*iterator.next()) == 1 ? 1 : 0;
  EXPECT_EQ(ones, 3);
}

TEST(SampleFrom, IsAFunctionOfTheSeedAndTheEpoch) {
  const std::vector<Dataset> inputs{constant(0, 20), constant(1, 20)};
  const Dataset open = sample_from(inputs, {1, 1});
  const Dataset fixed = sample_from(inputs, {1, 1}, {.seed = 5});
  const std::string two_epochs = run(open, {.seed = 1, .epochs = 2});
  EXPECT_EQ(run(open, {.seed = 1, .epochs = 2}), two_epochs);
  EXPECT_NE(run(open, {.seed = 2, .epochs = 2}), two_epochs);
  EXPECT_NE(two_epochs.substr(0, two_epochs.size() / 2), two_epochs.substr(two_epochs.size() / 2));
  EXPECT_EQ(run(fixed, {.seed = 1}), run(fixed, {.seed = 2}));
}

TEST(SampleFrom, RefusesWrongArguments) {
  const Dataset two = numbers(2);
  const auto refuses = [](const std::string& text, const std::function<void()>& act) {
    expect_error(ErrorCode::invalid_argument, text, act);
  };
  refuses("no weights", [] { (void)sample_from({}, {}); });
  refuses("2 weights for 1 inputs", [&] { (void)sample_from({two}, {0.5, 0.5}); });
  refuses("no weights", [&] { (void)sample_from({two}, {}); });
  refuses("weight", [&] { (void)sample_from({two}, {-0.5}); });
  refuses("weight", [&] { (void)sample_from({two}, {std::nan("")}); });
  refuses("weight", [&] { (void)sample_from({two}, {INFINITY}); });
  refuses("sample_from", [&] { (void)sample_from({two, two.enumerate()}, {1, 1}); });
}

}  // namespace semantics_interleave_test
}  // namespace penstock
