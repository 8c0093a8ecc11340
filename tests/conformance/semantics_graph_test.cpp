// What a graph knows before it runs: how many elements, which specs; and which graphs are wrong.
#include <gtest/gtest.h>

#include <penstock/sources.h>

#include "tests/support/errors.h"
#include "tests/support/vectors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::numbers;
using test::stream;
using test::x_spec;

Dataset batched(const Dataset& input, std::int64_t size, bool drop) {
  return input.batch(size, {.drop_remainder = drop});
}

TEST(Cardinality, IsKnownBeforeAnythingRuns) {
  const Dataset six = numbers(6);
  const Dataset none = numbers(0);
  const Dataset endless = numbers(6).repeat();
  const Dataset unknown = stream({1, 2, 3});
  const auto yes = [](const Element&) { return true; };
  const auto same = [](Element element) { return element; };
  const auto nested = [](const Element&) { return numbers(2); };
  const Dataset y = numbers(4).map(
      [](Element e) {
        return Element({{"y", e[0]}});
      },
      {.output = Spec({{"y", DType::i64, Shape()}})});
  struct Case {
    const char* name;
    Dataset dataset;
    std::int64_t expected;
  };
  const std::vector<Case> cases{
      {"source", six, 6},
      {"empty source", none, 0},
      {"stream", unknown, kUnknown},
      {"repeat", six.repeat(3), 18},
      {"repeat 0", six.repeat(0), 0},
      {"repeat of repeat", six.repeat(3).repeat(2), 36},
      {"endless repeat", endless, kInfinite},
      {"endless repeat of nothing", none.repeat(), 0},
      {"endless, repeated 0 times", endless.repeat(0), 0},
      {"endless, repeated", endless.repeat(2), kInfinite},
      {"unknown repeat", unknown.repeat(2), kUnknown},
      {"unknown, repeated 0 times", unknown.repeat(0), 0},
      {"repeat beyond i64", numbers(1 << 16).repeat(std::int64_t{1} << 62), kInfinite},
      {"take", six.take(4), 4},
      {"take more", six.take(25), 6},
      {"take all", six.take(-1), 6},
      {"take of endless", endless.take(4), 4},
      {"take all of endless", endless.take(-1), kInfinite},
      {"take of unknown", unknown.take(4), kUnknown},
      {"take nothing of unknown", unknown.take(0), 0},
      {"skip", six.skip(4), 2},
      {"skip more", six.skip(25), 0},
      {"skip all", six.skip(-1), 0},
      {"skip of endless", endless.skip(4), kInfinite},
      {"skip all of endless", endless.skip(-1), 0},
      {"skip of unknown", unknown.skip(1), kUnknown},
      {"shard", numbers(10).shard(3, 0), 4},
      {"shard", numbers(10).shard(3, 1), 3},
      {"shard of fewer", none.shard(3, 1), 0},
      {"shard of endless", endless.shard(3, 1), kInfinite},
      {"shard of unknown", unknown.shard(3, 1), kUnknown},
      {"shuffle", six.shuffle(), 6},
      {"buffered shuffle of endless", endless.shuffle({.buffer = 2}), kInfinite},
      {"filter", six.filter(yes), kUnknown},
      {"filter of endless", endless.filter(yes), kUnknown},
      {"take_while", six.take_while(yes), kUnknown},
      {"flat_map", six.flat_map(nested, x_spec()), kUnknown},
      {"interleave", six.interleave(nested, x_spec()), kUnknown},
      {"interleave of endless", endless.interleave(nested, x_spec()), kUnknown},
      {"map", six.map(same), 6},
      {"unordered map of endless", endless.map(same, {.ordered = false}), kInfinite},
      {"batch", numbers(8).batch(3), 3},
      {"batch, drop", batched(numbers(8), 3, true), 2},
      {"batch of endless", endless.batch(4), kInfinite},
      {"batch of unknown", unknown.batch(4), kUnknown},
      {"padded_batch", numbers(8).padded_batch(3), 3},
      {"padded_batch, drop", numbers(8).padded_batch(3, {.drop_remainder = true}), 2},
      {"unbatch", batched(six, 2, true).unbatch(), 6},
      {"unbatch of an open batch", six.batch(2).unbatch(), kUnknown},
      {"unbatch of endless", endless.batch(2).unbatch(), kInfinite},
      {"unbatch of padding", numbers(5).batch(2).pad_batches().unbatch(), kUnknown},
      {"unbatch of padding, repeated", numbers(5).batch(2).pad_batches().repeat(2).unbatch(),
       kUnknown},
      {"unbatch of batches of padding",
       batched(numbers(5).batch(2).pad_batches(), 3, true).unbatch(), 3},
      {"prefetch", six.prefetch(2), 6},
      {"cache", six.cache(), 6},
      {"enumerate", six.enumerate(), 6},
      {"enumerate of endless", endless.enumerate(), kInfinite},
      {"zip", zip({six, y}), 4},
      {"zip with endless", zip({endless, y}), 4},
      {"zip of endless", zip({endless, y.repeat()}), kInfinite},
      {"zip with unknown", zip({unknown, y}), kUnknown},
      {"concatenate", six.concatenate(numbers(3)), 9},
      {"concatenate endless", six.concatenate(endless), kInfinite},
      {"concatenate unknown", six.concatenate(unknown), kUnknown},
      {"sample_from", sample_from({six, numbers(3)}, {1, 1}), 9},
      {"sample_from without one", sample_from({six, numbers(3)}, {1, 0}), 6},
      {"sample_from, stopping", sample_from({six, six}, {1, 1}, {.stop_on_empty = true}), kUnknown},
      {"sample_from an endless one, stopping",
       sample_from({six, endless}, {1, 1}, {.stop_on_empty = true}), kUnknown},
      {"sample_from endless ones, stopping",
       sample_from({endless, endless}, {1, 1}, {.stop_on_empty = true}), kInfinite},
      {"sample_from an endless one without another, stopping",
       sample_from({six, endless}, {0, 1}, {.stop_on_empty = true}), kInfinite},
      {"sample_from an endless one", sample_from({six, endless}, {1, 1}), kInfinite},
      {"choose_from", choose_from({six}, numbers(3)), kUnknown},
      {"select", six.select({1, 1, 2}), 3},
  };
  for (const Case& test : cases) EXPECT_EQ(test.dataset.cardinality(), test.expected) << test.name;
}

TEST(Cardinality, IsWhatComesOut) {
  const std::vector<Dataset> datasets{
      numbers(7).repeat(3).batch(4),
      numbers(7).batch(2, {.drop_remainder = true}).unbatch(),
      numbers(20).shard(3, 2).skip(1).take(4).concatenate(numbers(2)).repeat(2),
      numbers(9).shuffle().enumerate().batch(2).prefetch(2),
      sample_from({numbers(5), numbers(6), numbers(7)}, {0.2, 0.3, 0.5}).cache().repeat(2),
  };
  for (const Dataset& dataset : datasets) {
    std::int64_t count = 0;
    Iterator iterator = dataset.iterate();
    while (iterator.next().has_value()) ++count;
    EXPECT_EQ(count, dataset.cardinality());
  }
}

TEST(Specs, AreKnownForEveryStage) {
  const auto spec = [](DType dtype, const Shape& shape) { return Spec({{"x", dtype, shape}}); };
  const Dataset six = numbers(6);
  EXPECT_EQ(six.spec(), spec(DType::i64, Shape()));
  EXPECT_EQ(six.batch(2).spec(), spec(DType::i64, Shape{-1}));
  EXPECT_EQ(six.batch(2, {.drop_remainder = true}).batch(3).spec(), spec(DType::i64, Shape{-1, 2}));
  EXPECT_EQ(six.batch(2, {.drop_remainder = true}).batch(3).unbatch().spec(),
            spec(DType::i64, Shape{2}));
  EXPECT_EQ(six.padded_batch(2).spec(), spec(DType::i64, Shape{-1}));
  EXPECT_EQ(six.shuffle().repeat().shard(2, 0).prefetch().cache().take(2).skip(1).spec(),
            six.spec());
  const Dataset vectors =
      six.map([](Element element) { return element; }, {.output = spec(DType::i64, Shape{-1})});
  EXPECT_EQ(vectors.spec(), spec(DType::i64, Shape{-1}));
  EXPECT_EQ(vectors.padded_batch(4, {.shapes = {Shape{7}}, .drop_remainder = true}).spec(),
            spec(DType::i64, Shape{4, 7}));
  EXPECT_EQ(Dataset(make_range_source(0, 3, 1)).spec(), Spec({{"value", DType::i64, Shape()}}));
  EXPECT_EQ(
      Dataset(make_tensors_source(Element({{"a", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}})))
          .spec(),
      Spec({{"a", DType::f32, Shape{3}}}));
}

TEST(Graphs, InvalidStages) {
  const Dataset six = numbers(6);
  struct Case {
    const char* stage;
    const char* text;
    std::function<void()> build;
  };
  const std::vector<Case> cases{
      {"shard", "index must be in [0, 3), not 3", [&] { (void)six.shard(3, 3); }},
      {"shard", "count must be positive, not 0", [&] { (void)six.shard(0, 0); }},
      {"batch", "size must be positive, not 0", [&] { (void)six.batch(0); }},
      {"padded_batch", "size must be positive, not -1", [&] { (void)six.padded_batch(-1); }},
      {"prefetch", "count must be at least -1, not -2", [&] { (void)six.prefetch(-2); }},
      {"unbatch", "component x is a scalar", [&] { (void)six.unbatch(); }},
      {"zip", "component x comes from two inputs",
       [&] {
         (void)zip({six, six});
       }},
      {"interleave", "cycle must be positive, not 0",
       [&] { (void)six.interleave([&](const Element&) { return six; }, x_spec(), {.cycle = 0}); }},
      {"concatenate", "index", [&] { (void)six.concatenate(six.enumerate()); }},
      {"sample_from", "1 weights for 2 inputs",
       [&] {
         (void)sample_from({six, six}, {1});
       }},
      {"choose_from", "choices must be one i64 scalar",
       [&] { (void)choose_from({six}, six.batch(2)); }},
      {"select", "index 6 is past the end of 6", [&] { (void)six.select({6}); }},
  };
  for (const Case& test : cases) {
    const std::optional<Error> error = test::thrown_by(test.build);
    ASSERT_TRUE(error) << test.stage;
    EXPECT_EQ(error->code(), ErrorCode::invalid_argument) << test.stage;
    EXPECT_NE(std::string(error->what()).find(test.stage), std::string::npos) << error->what();
    EXPECT_NE(std::string(error->what()).find(test.text), std::string::npos) << error->what();
  }
}

TEST(Graphs, EmptyCallables) {
  const auto refuses = [](const std::function<void()>& build) {
    expect_error(ErrorCode::invalid_argument, "", build);
  };
  refuses([] { (void)numbers(1).filter(Predicate()); });
  refuses([] { (void)numbers(1).take_while(Predicate()); });
  refuses([] { (void)numbers(1).map(ElementFn()); });
  refuses([] { (void)numbers(1).map(ViewFn(), {.output = x_spec()}); });
  refuses([] { (void)numbers(1).map_op(nullptr); });
  refuses([] { (void)Dataset(make_generate_source({}, x_spec(), "g")); });
}

TEST(Graphs, ViewMapWithoutAFixedSpec) {
  const auto write = [](const Element&, Element&, Rng&) {};
  expect_error(ErrorCode::invalid_argument, "fixed size", [&] { (void)numbers(1).map(write); });
  expect_error(ErrorCode::invalid_argument, "fixed size", [&] {
    (void)numbers(1).map(write, {.output = Spec({{"x", DType::i64, Shape{-1}}})});
  });
}

TEST(Graphs, AreImmutableAndShared) {
  const Dataset base = numbers(6);
  const Dataset even = base.shard(2, 0);
  const Dataset odd = base.shard(2, 1);
  EXPECT_EQ(test::run(even), "0 2 4");
  EXPECT_EQ(test::run(odd), "1 3 5");
  EXPECT_EQ(test::run(base), "0 1 2 3 4 5");
  EXPECT_EQ(test::run(even.concatenate(odd)), "0 2 4 1 3 5");
}

}  // namespace
}  // namespace penstock
