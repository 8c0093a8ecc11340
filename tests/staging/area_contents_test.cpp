// What staging areas make of batches: rows, padding, text, sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/penstock.h>
#include <penstock/staging_area.h>

#include "tests/staging/area_on.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"

namespace penstock {
namespace {

using test::expect_numbers;
using test::numbers;
using test::numbers_spec;
using test::StagingAreaOn;

TEST_P(StagingAreaOn, RowsOfSeveralBatches) {
  const Stream compute(shared(), "compute");
  StagingArea area(shared(), numbers_spec(), 8);
  std::vector<Piece> pieces;
  pieces.push_back({numbers(0, 8), 5, 3});
  pieces.push_back({numbers(8, 4), 0, 2});
  area.put(area.reserve(), pieces);
  std::optional<StagedBatch> batch = area.get();
  batch->wait(compute);
  expect_numbers(*batch, compute, 5, 5);
}

TEST_P(StagingAreaOn, Padding) {
  const Stream compute(shared(), "compute");
  StagingArea area(shared(), numbers_spec(), 4, {.slots = 1});
  for (const std::int64_t valid : {0, 1, 3, 4}) {
    area.put(numbers(90, 4));  // leaves its values in the slot
    area.get()->wait(compute);
    std::vector<Piece> pieces;
    if (valid > 0) pieces.push_back({numbers(50, 4), 0, valid});
    area.put(area.reserve(), pieces, 4);
    std::optional<StagedBatch> batch = area.get();
    EXPECT_EQ(batch->valid_rows(), valid);
    batch->wait(compute);
    const auto x = test::read<std::int64_t>(compute, (*batch)["x"]);
    const auto y = test::read<float>(compute, (*batch)["y"]);
    ASSERT_EQ(x.size(), 4U);
    ASSERT_EQ(y.size(), 12U);
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(x[static_cast<std::size_t>(i)], i < valid ? 50 + i : 0);
      EXPECT_EQ(y[static_cast<std::size_t>(3 * i)], i < valid ? static_cast<float>(50 + i) / 2 : 0);
    }
  }
}

TEST_P(StagingAreaOn, Text) {
  const Stream compute(shared(), "compute");
  const Spec spec({{"key", DType::bytes, Shape({-1})}, {"x", DType::i64, Shape({-1})}});
  StagingArea area(shared(), spec, 3, {.slots = 2, .max_bytes = 20});
  const auto batch_of = [](std::vector<std::string_view> keys) {
    const auto rows = static_cast<std::int64_t>(keys.size());
    Element element{{"key", Tensor::of_bytes(keys)},
                    {"x", Tensor::allocate(DType::i64, Shape({rows})).clone()}};
    element.valid_rows = rows;
    return element;
  };
  for (const std::vector<std::string_view>& keys : std::vector<std::vector<std::string_view>>{
           {"a", "", "ccc"}, {"twenty bytes in here"}, {"", ""}}) {
    area.put(batch_of(keys));
    std::optional<StagedBatch> batch = area.get();
    batch->wait(compute);
    EXPECT_EQ((*batch)["key"].shape, Shape({static_cast<std::int64_t>(keys.size())}));
    EXPECT_THAT(test::read_text(compute, (*batch)["key"]), testing::ElementsAreArray(keys));
  }
  const std::string text = test::text_of([&] {
    area.put(batch_of({"twenty bytes in here", "!"}));
  });
  EXPECT_THAT(text, testing::HasSubstr("component key"));
  EXPECT_THAT(text, testing::HasSubstr("21 bytes of text"));
  EXPECT_THAT(text, testing::HasSubstr("room for 20"));
  area.put(batch_of({"still", "works"}));
  EXPECT_EQ(area.get()->valid_rows(), 2);
}

TEST_P(StagingAreaOn, ValuesOfUnknownSize) {
  const Stream compute(shared(), "compute");
  const Spec spec({{"v", DType::i64, Shape({-1, -1})}});
  EXPECT_EQ(test::code_of([&] { StagingArea(shared(), spec, 4, {.max_bytes = 0}); }),
            ErrorCode::invalid_argument);
  StagingArea area(shared(), spec, 4, {.max_bytes = 64});
  const auto batch_of = [](std::int64_t rows, std::int64_t columns) {
    Tensor v = Tensor::allocate(DType::i64, Shape({rows, columns}));
    for (std::int64_t i = 0; i < rows * columns; ++i)
      v.mutable_values<std::int64_t>()[static_cast<std::size_t>(i)] = i;
    return Element{{"v", std::move(v)}};
  };
  area.put(batch_of(2, 4));
  std::optional<StagedBatch> batch = area.get();
  batch->wait(compute);
  EXPECT_EQ((*batch)["v"].shape, Shape({2, 4}));
  EXPECT_THAT(test::read<std::int64_t>(compute, (*batch)["v"]),
              testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const std::string text = test::text_of([&] { area.put(batch_of(3, 3)); });
  EXPECT_THAT(text, testing::HasSubstr("72 bytes"));
  EXPECT_THAT(text, testing::HasSubstr("64"));
}

TEST_P(StagingAreaOn, MismatchedBatches) {
  EXPECT_EQ(test::code_of([&] { StagingArea(shared(), numbers_spec(), 0); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(test::code_of([&] { StagingArea(shared(), numbers_spec(), 4, {.slots = 0}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(test::code_of([&] {
              StagingArea(shared(), Spec({{"x", DType::i64, Shape()}}), 4);
            }),
            ErrorCode::invalid_argument);
  StagingArea area(shared(), numbers_spec(), 4);
  EXPECT_EQ(test::code_of([&] { area.put(numbers(0, 5)); }), ErrorCode::out_of_range);
  EXPECT_EQ(test::code_of([&] {
              area.put(Element{{"z", Tensor::scalar(1.0F)}});
            }),
            ErrorCode::invalid_argument);
  std::vector<Piece> beyond{{numbers(0, 4), 2, 3}};
  EXPECT_EQ(test::code_of([&] { area.put(area.reserve(), beyond); }), ErrorCode::invalid_argument);
  area.put(numbers(0, 4));  // no permit was lost
  area.put(numbers(4, 4));
  EXPECT_EQ(area.size(), 2U);
  StagedBatch batch = *area.get();
  EXPECT_EQ(test::code_of([&] { static_cast<void>(batch["z"]); }), ErrorCode::not_found);
}

TEST_P(StagingAreaOn, SlotsInLittleMemory) {
  const std::uint64_t bytes = StagingArea(shared(), numbers_spec(), 100).slot_bytes();
  EXPECT_GE(bytes, 100U * (8 + 12));
  const auto slots = [&](std::uint64_t limit) {
    return StagingArea(shared(), numbers_spec(), 100, {.slots = 3, .memory_bytes = limit}).slots();
  };
  EXPECT_EQ(slots(0), 3);
  EXPECT_EQ(slots(3 * bytes), 3);
  EXPECT_EQ(slots(3 * bytes - 1), 2);
  EXPECT_EQ(slots(bytes), 1);
  EXPECT_EQ(test::code_of([&] { static_cast<void>(slots(bytes - 1)); }),
            ErrorCode::resource_exhausted);
}

TEST_P(StagingAreaOn, CopiesOfABatch) {
  if (device().unified()) GTEST_SKIP() << "batches are not copied";
  const Stream compute(shared(), "compute");
  if (device().id().kind == DeviceKind::host && bed_.clock) GTEST_SKIP() << "real threads";
  const Dataset dataset = range(64)
                              .map(
                                  [](const Element& in) {
                                    Element out;
                                    out.set("a", in[0]);
                                    out.set("b", Tensor::of<float>(Shape({3}), {1, 2, 3}));
                                    out.set("c", in[0]);
                                    return out;
                                  },
                                  {.output = Spec({{"a", DType::i64, Shape()},
                                                   {"b", DType::f32, Shape({3})},
                                                   {"c", DType::i64, Shape()}})})
                              .batch(7);
  RunOptions run;
  run.slot_allocator = device().pinned();
  Iterator iterator = dataset.iterate(run);
  StagingArea area(shared(), dataset.spec(), 7);
  for (int k = 0; k < 9; ++k) {
    const std::uint64_t copies = device().counters().copies;
    area.put(iterator.next().value());
    EXPECT_EQ(device().counters().copies, copies + 1);
    StagedBatch batch = *area.get();
    batch.wait(compute);
    EXPECT_EQ(test::read<std::int64_t>(compute, batch["c"])[6], 7 * k + 6);
    EXPECT_EQ(test::read<float>(compute, batch["b"])[20], 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StagingAreaOn, testing::ValuesIn(test::bed_kinds()),
                         test::name_of_bed);

}  // namespace
}  // namespace penstock
