// Mixtures whose weights change, and sequences packed into rows.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::expect_vectors;
using test::failing_at;
using test::iota;
using test::numbers;
using test::run;
using test::x_of;

Dataset always(std::int64_t value) {
  return numbers({value}).repeat();
}

TEST(MixWeights, FollowAPlan) {
  const MixWeights plan(std::vector<MixWeights::Change>{
      {0, 0, {1, 0}}, {0, 3, {0, 1}}, {0, 5, {1, 0}}, {1, 0, {0, 1}}});
  expect_vectors({
      {"in one epoch", sample_from({always(0), always(1)}, plan).take(8), "0 0 0 1 1 0 0 0"},
      {"in two",
       sample_from({always(0), always(1)}, plan).take(4),
       "0 0 0 1 ;1 1 1 1 ;",
       {.epochs = 2}},
      {"until all are 0",
       sample_from({always(0), always(1)},
                   MixWeights(std::vector<MixWeights::Change>{{0, 0, {1, 0}}, {0, 2, {0, 0}}})),
       "0 0"},
  });
  EXPECT_EQ(sample_from({numbers(3), numbers(4)}, plan).cardinality(), kUnknown);
}

TEST(MixWeights, ChangeWhileTheyRunAndTheRecordRepeatsTheRun) {
  const MixWeights weights({1.0, 0.0});
  const Dataset inputs_of_two = sample_from({always(0), always(1)}, weights).batch(4);
  std::vector<std::string> batches;
  std::vector<std::string> states;
  Iterator iterator = inputs_of_two.iterate({.seed = 1, .threads = 2, .slots = 2});
  const auto read = [&](int count) {
    for (int i = 0; i < count; ++i) {
      batches.push_back(test::text_of(*iterator.next()));
      states.push_back(iterator.save());
    }
  };
  read(3);
  const MixWeights::Change change = weights.set({0.0, 1.0});
  EXPECT_EQ(change.epoch, 0U);
  EXPECT_GE(change.draw, 12U) << "what was drawn is not changed";
  read(200);
  weights.set({0.5, 0.5});
  read(100);
  EXPECT_EQ(batches[0], "0 0 0 0");
  EXPECT_NE(std::find(batches.begin(), batches.end(), "1 1 1 1"), batches.end());
  const std::vector<MixWeights::Change> record = weights.changes();
  ASSERT_EQ(record.size(), 3U);
  EXPECT_EQ(record[1], change);

  // The same again, and from any position on, given the record.
  const Dataset again = sample_from({always(0), always(1)}, MixWeights(record)).batch(4);
  Iterator repeated = again.iterate({.seed = 1, .threads = 1});
  for (const std::string& batch : batches) EXPECT_EQ(test::text_of(*repeated.next()), batch);
  for (const std::size_t at : {0U, 2U, 20U, 100U, 250U}) {
    Iterator restored = again.restore(states[at], {.threads = 8});
    for (std::size_t i = at + 1; i < batches.size(); ++i) {
      ASSERT_EQ(test::text_of(*restored.next()), batches[i]) << at << " " << i;
    }
  }
}

TEST(MixWeights, AreSavedWithThePosition) {
  const auto graph = [](const MixWeights& weights) {
    return sample_from({always(0), always(1)}, weights).take(3000).batch(4);
  };
  const MixWeights weights({1.0, 0.0});
  std::vector<std::string> batches;
  std::vector<std::string> states;
  Iterator iterator = graph(weights).iterate({.seed = 1, .epochs = 2, .threads = 2, .slots = 2});
  int read = 0;
  do {
    for (Next next = iterator.next(); !next.is_end(); next = iterator.next(), ++read) {
      batches.push_back(test::text_of(*next));
      states.push_back(iterator.save());
      if (read == 100) weights.set({0.0, 1.0});
      if (read == 900) weights.set({0.5, 0.5});
    }
  } while (iterator.next_epoch());
  // In another process: the weights that the graph began with, and the state.
  for (const std::size_t at : {101U, 500U, 749U, 750U, 901U, 1200U}) {
    const MixWeights fresh({1.0, 0.0});
    Iterator restored = graph(fresh).restore(states[at], {.epochs = 2, .threads = 3});
    std::size_t i = at + 1;
    // What was set after the state was saved is not in it.
    const std::size_t end = at < 900 ? std::min<std::size_t>(900, batches.size()) : batches.size();
    do {
      for (Next next = restored.next(); !next.is_end() && i < end; next = restored.next()) {
        ASSERT_EQ(test::text_of(*next), batches[i++]) << "restored at " << at;
      }
    } while (i < end && restored.next_epoch());
    // A change counts behind what the run before had drawn.
    const MixWeights::Change change = fresh.set({1.0, 1.0});
    EXPECT_GT(std::pair(change.epoch, change.draw),
              std::pair(std::uint64_t{0}, std::uint64_t{400}));
    EXPECT_LE(states[at].size(), 4096U);
  }
}

TEST(MixWeights, ComeToTheirShares) {
  const MixWeights weights({3.0, 1.0});
  const Dataset dataset = sample_from({always(0), always(1)}, weights, {.seed = 4});
  Iterator iterator = dataset.iterate();
  const auto ones = [&](int count) {
    std::int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += x_of(*iterator.next());
    return static_cast<double>(sum) / count;
  };
  EXPECT_NEAR(ones(4000), 0.25, 0.03);
  weights.set({1.0, 4.0});
  (void)ones(20'000);  // drawn ahead
  EXPECT_NEAR(ones(4000), 0.8, 0.03);
}

TEST(MixWeights, RefuseWhatIsNoRecord) {
  const auto wrong = [](std::vector<MixWeights::Change> changes) {
    expect_error(ErrorCode::invalid_argument, "", [&] { MixWeights record(changes); });
  };
  wrong({});
  wrong({{0, 0, {}}});
  wrong({{0, 1, {1}}});
  wrong({{1, 0, {1}}});
  wrong({{0, 0, {1}}, {0, 0, {1}}});
  wrong({{0, 0, {1}}, {0, 5, {1, 1}}});
  wrong({{0, 0, {-1}}});
  const MixWeights weights({1.0, 1.0});
  for (const std::vector<double>& bad : std::vector<std::vector<double>>{{}, {1}, {1, -1}}) {
    expect_error(ErrorCode::invalid_argument, "", [&] { weights.set(bad); });
  }
  expect_error(ErrorCode::invalid_argument, "2 weights for 1 inputs",
               [&] { (void)sample_from({numbers(3)}, weights); });
}

/// x repeated x times, for each x.
Dataset runs_of(const std::vector<std::int64_t>& lengths) {
  return numbers(lengths).map(
      [](Element element) {
        const std::int64_t x = x_of(element);
        return Element({{"x", Tensor::of<std::int64_t>({x}, std::vector<std::int64_t>(
                                                                static_cast<std::size_t>(x), x))}});
      },
      {.name = "runs", .output = Spec({{"x", DType::i64, {Shape::kUnknown}}})});
}

TEST(Pack, PutsEachSequenceWhereItFitsFirst) {
  expect_vectors({
      {"one row", runs_of({1, 2}).pack({.length = 4}), "(1 2 2 0, 1 2 2 0, 0 0 1 0)"},
      {"full rows come at once", runs_of({3, 4, 1}).pack({.length = 4}),
       "(4 4 4 4, 1 1 1 1, 0 1 2 3) (3 3 3 1, 1 1 1 2, 0 1 2 0)"},
      {"into a row in front", runs_of({3, 2, 1, 2}).pack({.length = 4}),
       "(3 3 3 1, 1 1 1 2, 0 1 2 0) (2 2 2 2, 1 1 2 2, 0 1 0 1)"},
      {"one row open", runs_of({3, 2, 1, 2}).pack({.length = 4, .open = 1}),
       "(3 3 3 0, 1 1 1 0, 0 1 2 0) (2 2 1 0, 1 1 2 0, 0 1 0 0) (2 2 0 0, 1 1 0 0, 0 1 0 0)"},
      {"padded with -1", runs_of({1}).pack({.length = 2, .values = {-1}}), "(1 -1, 1 0, 0 0)"},
      {"of nothing", runs_of({}).pack({.length = 4}), ""},
      {"as long as a row", runs_of({2, 2}).pack({.length = 2}), "(2 2, 1 1, 0 1) (2 2, 1 1, 0 1)"},
      {"too long", runs_of({1, 3, 1}).pack({.length = 2}), "E (1 1, 1 2, 0 0)"},
      {"empty ones", runs_of({0, 2, 0}).pack({.length = 3}), "(2 2 0, 2 2 0, 0 1 0)"},
      {"errors cost themselves", runs_of({1, 2}).pack({.length = 3}).batch(1),
       "([1 2 2], [1 2 2], [0 0 1])"},
  });
  const std::vector<Error> errors = test::errors(runs_of({1, 3}).pack({.length = 2}));
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::out_of_range);
  EXPECT_EQ(errors[0].where().index, 1);
  EXPECT_EQ(runs_of({1}).pack({.length = 8}).spec().to_string(),
            "{x: i64 [8], segment: i32 [8], position: i32 [8]}");
}

TEST(Pack, KeepsComponentsTogether) {
  const Dataset pairs = runs_of({2, 1}).map(
      [](Element element) {
        const std::int64_t rows = element["x"].dim(0);
        std::vector<float> twice(static_cast<std::size_t>(2 * rows), 0.5F);
        return Element({{"x", element["x"]}, {"y", Tensor::of<float>({rows, 2}, twice)}});
      },
      {.output =
           Spec({{"x", DType::i64, {Shape::kUnknown}}, {"y", DType::f32, {Shape::kUnknown, 2}}})});
  expect_vectors({{"", pairs.pack({.length = 4}),
                   "(2 2 1 0, [0.5 0.5] [0.5 0.5] [0.5 0.5] [0 0], 1 1 2 0, 0 1 0 0)"}});
}

TEST(Pack, LosesAndRepeatsNothing) {
  std::vector<std::int64_t> lengths;
  Rng random(1, 2, 3);
  for (int i = 0; i < 500; ++i) lengths.push_back(1 + static_cast<std::int64_t>(random.below(64)));
  std::int64_t rows = 0;
  std::vector<std::int64_t> found;
  const Dataset dataset = runs_of(lengths).pack({.length = 64});
  Iterator iterator = dataset.iterate({.threads = 4});
  for (Next next = iterator.next(); next.has_value(); next = iterator.next(), ++rows) {
    const auto values = (*next)["x"].values<std::int64_t>();
    for (std::size_t i = 0; i < values.size();) {
      if (values[i] == 0) break;
      found.push_back(values[i]);
      i += static_cast<std::size_t>(values[i]);
    }
  }
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) total += length;
  EXPECT_LE(rows, total * 11 / 10 / 64) << "less than a tenth is padding";
  std::sort(found.begin(), found.end());
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(found, lengths);
}

TEST(Pack, LifetimeOfRows) {
  const Spec packed(
      {{"x", DType::i64, {4}}, {"segment", DType::i32, {4}}, {"position", DType::i32, {4}}});
  const auto rows = [](const Element&) { return runs_of({1, 2}).pack({.length = 4}); };
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    expected += (i > 0 ? " " : "") + std::string("(1 2 2 0, 1 2 2 0, 0 0 1 0)");
  }
  expect_vectors({{"flat_map", numbers(100).flat_map(rows, packed), expected},
                  {"interleave", numbers(100).interleave(rows, packed), expected}});
}

TEST(Pack, RefusesWrongOptions) {
  const std::vector<PackOptions> wrong{{},
                                       {.length = -1},
                                       {.length = INT64_MAX},
                                       {.length = 4, .open = 0},
                                       {.length = 4, .values = {1, 2}},
                                       {.length = 4, .values = {0.5}},
                                       {.length = 4, .segment = "x"}};
  for (const PackOptions& options : wrong) {
    expect_error(ErrorCode::invalid_argument, "", [&] { (void)runs_of({1}).pack(options); });
  }
  expect_error(ErrorCode::invalid_argument, "sequence",
               [] { (void)numbers(3).pack({.length = 4}); });
}

}  // namespace
}  // namespace penstock
