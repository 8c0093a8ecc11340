// Batches of equal size by pad_batches, behind a batch and behind stages that pass its batches on.
#include <functional>

#include <gtest/gtest.h>

#include "tests/conformance/rows.h"
#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::expect_vectors;
using test::numbers;
using test::run;

/// Returns the texts of all batches, each from a run restored at its position.
std::string run_restored(const Dataset& dataset, const RunOptions& options) {
  std::string text;
  Iterator iterator = dataset.iterate(options);
  for (;;) {
    iterator = dataset.restore(iterator.save(), options);
    Next next = iterator.next();
    if (next.is_end()) return text;
    text += (text.empty() ? "" : " | ") + (next.is_error() ? "E" : test::text_of(*next));
  }
}

TEST(PadBatches, FollowsStagesThatKeepTheRows) {
  struct Stage {
    const char* name;
    std::function<Dataset(const Dataset&)> put;  // behind range(5).shard(2, i).batch(2)
    const char* largest;                         // of shard 0, whose elements are 0 2 4
    const char* other;                           // of shard 1
  };
  const std::vector<Stage> stages{
      {"batch", [](const Dataset& d) { return d; }, "0 2 | 4 0", "1 3 | 0 0"},
      {"repeat", [](const Dataset& d) { return d.repeat(2); }, "0 2 | 4 0 | 0 2 | 4 0",
       "1 3 | 1 3 | 0 0 | 0 0"},
      {"take", [](const Dataset& d) { return d.take(1); }, "0 2", "1 3"},
      {"skip", [](const Dataset& d) { return d.skip(1); }, "4 0", "0 0"},
      {"shuffle", [](const Dataset& d) { return d.shuffle({.buffer = 1}); }, "0 2 | 4 0",
       "1 3 | 0 0"},
      {"cache", [](const Dataset& d) { return d.cache(); }, "0 2 | 4 0", "1 3 | 0 0"},
      {"cache, repeated", [](const Dataset& d) { return d.cache().repeat(2); },
       "0 2 | 4 0 | 0 2 | 4 0", "1 3 | 1 3 | 0 0 | 0 0"},
      {"map", [](const Dataset& d) { return d.map([](Element e) { return e; }); }, "0 2 | 4 0",
       "1 3 | 0 0"},
      {"concatenate", [](const Dataset& d) { return d.concatenate(d); }, "0 2 | 4 0 | 0 2 | 4 0",
       "1 3 | 1 3 | 0 0 | 0 0"},
      {"shard", [](const Dataset& d) { return d.shard(2, 1); }, "4 0", "0 0"},
      {"pad_batches", [](const Dataset& d) { return d.pad_batches().repeat(2); },
       "0 2 | 4 0 | 0 2 | 4 0", "1 3 | 0 0 | 1 3 | 0 0"},
  };
  for (const Stage& c : stages) {
    for (const int index : {0, 1}) {
      const Dataset dataset = c.put(numbers(5).shard(2, index).batch(2)).pad_batches();
      const char* const expected = index == 0 ? c.largest : c.other;
      expect_vectors({{c.name, dataset, expected}});
      EXPECT_EQ(run_restored(dataset, {.threads = 2}), expected) << c.name;
      EXPECT_EQ(dataset.spec()[0].shape, Shape{2}) << c.name;
    }
  }
}

TEST(PadBatches, FillsUpWhatErrorsTookBehindOtherStages) {
  const auto batches = [] { return test::failing_at(numbers(4), 1).batch(2); };
  const RunOptions skip{.threads = 2, .on_error = OnError::skip};
  const auto check = [&](const Dataset& dataset, const char* with_errors, const char* skipped) {
    EXPECT_EQ(run(dataset), with_errors);
    EXPECT_EQ(run(dataset, skip), skipped);
    EXPECT_EQ(run_restored(dataset, {.threads = 2}), with_errors);
    EXPECT_EQ(run_restored(dataset, skip), skipped);
  };
  check(batches().repeat(2).pad_batches(), "E | 2 3 | E | 2 3 | 0 0 | 0 0",
        "0 2 | 3 0 | 0 2 | 3 0");
  check(batches().skip(1).pad_batches(), "E | 0 0", "3 0");
  check(batches().take(1).pad_batches(), "E | 2 3", "0 2");
}

TEST(PadBatches, FillsUpSeveralByteStringsOfARow) {
  const Spec pairs({{"x", DType::bytes, Shape{2}}});
  const auto pair = [](const Element&) {
    const std::vector<std::string_view> texts{"a", "bc"};
    return Element({{"x", Tensor::of_bytes(texts)}});
  };
  for (const int index : {0, 1}) {
    const Dataset elements = numbers(3).shard(2, index).map(pair, {.output = pairs});
    Iterator iterator = elements.batch(3).repeat(2).pad_batches().iterate();
    const Element batch = *iterator.next();
    ASSERT_EQ(batch["x"].shape(), Shape({3, 2}));
    for (std::int64_t i = 0; i < 6; ++i) {
      const bool filled = i / 2 >= batch.valid_rows;
      EXPECT_EQ(batch["x"].bytes_at(i), filled ? "" : i % 2 == 0 ? "a" : "bc") << i;
    }
  }
  const auto none = [](const Element&) -> Element { throw std::runtime_error("bad"); };
  Iterator iterator = numbers(1)
                          .map(none, {.output = pairs})
                          .batch(3)
                          .pad_batches()
                          .iterate({.on_error = OnError::skip});
  EXPECT_EQ((*iterator.next())["x"].shape(), Shape({3, 2})) << "padding alone";
}

TEST(PadBatches, RefusesBatchesOfNoCommonSize) {
  const auto refuses = [](const char* text, const Dataset& batches) {
    expect_error(ErrorCode::invalid_argument, text, [&] { (void)batches.pad_batches(); });
  };
  refuses("the elements of shuffle may not be batches", numbers(4).shuffle());
  refuses("the elements of unbatch may not be batches", numbers(4).batch(2).unbatch());
  refuses("those of rebatch have different numbers of rows", numbers(4).batch(2).rebatch({1, 2}));
  refuses("those of ragged_batch are one whole each", test::runs_of({1, 2}).ragged_batch(2));
  refuses("filter gives an unknown number of elements",
          numbers(4).batch(2).filter([](const Element&) { return true; }).repeat(2));
  refuses("repeat gives infinitely many elements", numbers(4).batch(2).repeat().shard(2, 0));
}

TEST(PadBatches, ExcessRows) {
  const auto longer = [](const Element& batch) {
    return Element(
        {{"x", test::vector_of(std::vector<std::int64_t>(batch[0].dim(0) == 1 ? 3 : 1, 7))}});
  };
  const Dataset dataset = numbers(3)
                              .batch(2)
                              .map(longer, {.output = Spec({{"x", DType::i64, {Shape::kUnknown}}})})
                              .pad_batches();
  expect_vectors({{"longer", dataset, "7 0 | E | 0 0"}});
  EXPECT_EQ(test::errors(dataset).at(0).code(), ErrorCode::mismatch);
}

}  // namespace
}  // namespace penstock
