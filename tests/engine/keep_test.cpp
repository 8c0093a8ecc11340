// keep and drop: what comes out, what they refuse, and that they cost nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include <penstock/penstock.h>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace penstock {
namespace keep_test {

using test::expect_error;
using test::numbers;
using test::text_of;
using testing::HasSubstr;

Spec three_spec() {
  return Spec({{"a", DType::i64, {}}, {"b", DType::f32, {2}}, {"c", DType::i64, {}}});
}

/// a = x, b = [x, x / 2], c = 10 x; where they were written.
struct Written {
  std::atomic<int> to_rows{0};  // values that had a place in a batch
  std::atomic<int> elsewhere{0};
};

class ThreeOp final : public WorkOp {
 public:
  explicit ThreeOp(std::shared_ptr<Written> written) : written_(std::move(written)) {}
  std::string name() const override { return "three"; }
  void describe(Description&) const override {}
  Spec infer(const Spec&) const override { return three_spec(); }
  void run(std::span<WorkItem> items, WorkContext& context) const override {
    for (WorkItem& item : items) {
      if (!item.status.ok()) continue;
      const auto x = item.element["x"].item<std::int64_t>();
      if (x == 13) {
        item.status = Status(ErrorCode::invalid_argument, "13");
        continue;
      }
      const auto f = static_cast<float>(x);
      const std::int64_t ten = 10 * x;
      const std::array<float, 2> b{f, f / 2};
      Element out(three_spec().names());
      out[0] = place(item, 0, std::as_bytes(std::span(&x, 1)), context);
      out[1] = place(item, 1, std::as_bytes(std::span(b)), context);
      out[2] = place(item, 2, std::as_bytes(std::span(&ten, 1)), context);
      item.element = std::move(out);
    }
  }

 private:
  Tensor place(const WorkItem& item, std::size_t i, std::span<const std::byte> value,
               WorkContext& context) const {
    const Spec spec = three_spec();
    std::byte* to = item.row ? item.row.data(i) : nullptr;
    ++(to != nullptr ? written_->to_rows : written_->elsewhere);
    BufferPtr owner;
    if (to == nullptr) {
      owner = context.allocate(value.size());
      to = owner->data();
    }
    std::memcpy(to, value.data(), value.size());
    return {spec[i].dtype, spec[i].shape, to, std::move(owner)};
  }

  std::shared_ptr<Written> written_;
};

Dataset three(const Dataset& input, std::shared_ptr<Written> written = nullptr) {
  if (!written) written = std::make_shared<Written>();
  return input.map_op(std::make_shared<ThreeOp>(std::move(written)));
}

TEST(Keep, GivesWhatIsNamedInThatOrder) {
  const Dataset kept = three(numbers(3)).keep({"c", "b"});
  EXPECT_EQ(kept.spec().to_string(), "{c: i64 [], b: f32 [2]}");
  EXPECT_EQ(kept.cardinality(), 3);
  EXPECT_EQ(test::run(kept), "(0, 0 0) (10, 1 0.5) (20, 2 1)");
  EXPECT_EQ(test::run(kept.batch(2)), "(0 10, [0 0] [1 0.5]) | (20, [2 1])");
}

TEST(Drop, GivesTheOthersInTheirOrder) {
  const Dataset left = three(numbers(3)).drop({"b"});
  EXPECT_EQ(left.spec().to_string(), "{a: i64 [], c: i64 []}");
  EXPECT_EQ(test::run(left.batch(2)), "(0 1, 0 10) | (2, 20)");
}

TEST(Keep, OfBatchesKeepsTheirRows) {
  Iterator run = three(numbers(5)).batch(3).keep({"c"}).iterate();
  EXPECT_EQ(run.next().value().valid_rows, 3);
  const Element last = run.next().value();
  EXPECT_EQ(last.valid_rows, 2);
  EXPECT_EQ(text_of(last), "30 40");
}

TEST(Keep, RefusesWhatItCantKeep) {
  const Dataset data = three(numbers(3));
  const std::string spec = "{a: i64 [], b: f32 [2], c: i64 []}";
  expect_error(ErrorCode::invalid_argument, "there is no component 'image'; the input is " + spec,
               [&] {
                 (void)data.keep({"a", "image"});
               });
  expect_error(ErrorCode::invalid_argument,
               "there is no component 'image'; the input is " + spec + " (stage drop)",
               [&] { (void)data.drop({"image"}); });
  expect_error(ErrorCode::invalid_argument, "component 'a' is named twice", [&] {
    (void)data.keep({"a", "b", "a"});
  });
  expect_error(ErrorCode::invalid_argument, "no component is named", [&] { (void)data.keep({}); });
  expect_error(ErrorCode::invalid_argument, "no component is left of " + spec, [&] {
    (void)data.drop({"a", "b", "c"});
  });
}

struct Case {
  const char* name;
  Dataset (*stages)(const Dataset&);
  const char* gives;
  int of_three;  // components that have a place in the batch
};

// What stands in front of a keep writes straight into the batch behind it.
TEST(Keep, LeavesTheOpInFrontItsPlaceInTheBatch) {
  const std::array cases{Case{"keep",
                              [](const Dataset& d) {
                                return d.keep({"c", "b"});
                              },
                              "(0 10, [0 0] [1 0.5]) | (20 30, [2 1] [3 1.5])", 2},
                         Case{"drop", [](const Dataset& d) { return d.drop({"a"}); },
                              "([0 0] [1 0.5], 0 10) | ([2 1] [3 1.5], 20 30)", 2},
                         Case{"one behind another",
                              [](const Dataset& d) {
                                return d.keep({"c", "b", "a"}).drop({"b"}).keep({"a", "c"});
                              },
                              "(0 1, 0 10) | (2 3, 20 30)", 2},
                         Case{"all",
                              [](const Dataset& d) {
                                return d.keep({"a", "b", "c"});
                              },
                              "(0 1, [0 0] [1 0.5], 0 10) | (2 3, [2 1] [3 1.5], 20 30)", 3}};
  for (const Case& one : cases) {
    for (const int threads : {1, 4}) {
      const auto written = std::make_shared<Written>();
      EXPECT_EQ(test::run(one.stages(three(numbers(4), written)).batch(2), {.threads = threads}),
                one.gives)
          << one.name;
      EXPECT_EQ(written->to_rows, 4 * one.of_three) << one.name;
      EXPECT_EQ(written->elsewhere, 4 * (3 - one.of_three)) << one.name;
    }
  }
}

TEST(Keep, PassesErrorsOn) {
  const Dataset batches = three(numbers({11, 12, 13, 14, 15})).keep({"a"}).batch(2);
  EXPECT_EQ(test::run(batches), "11 12 | E | 14 15");
  EXPECT_EQ(test::run(batches, {.on_error = OnError::skip}), "11 12 | 14 15");
}

// Directly behind a source that writes its records to rows, or in columns.
TEST(Keep, BehindASource) {
  const Dataset table = tensors({{"n", Tensor::of<std::int64_t>({4}, {1, 2, 3, 4})},
                                 {"v", Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}});
  EXPECT_EQ(test::run(table.keep({"v", "n"}).batch(3)), "([1 2] [3 4] [5 6], 1 2 3) | ([7 8], 4)");
  EXPECT_EQ(test::run(table.shuffle({.seed = 1}).drop({"v"}).batch(4)),
            test::run(table.drop({"v"}).shuffle({.seed = 1}).batch(4)));
  EXPECT_EQ(test::run(range(3).keep({"value"}).batch(3)), "0 1 2");
}

// Many rows of a wide element, over the bounds of the blocks that columns are made in.
TEST(Keep, OfManyColumns) {
  const Dataset data = range(5000).map(
      [](Element e) {
        e.set("twice", Tensor::scalar(2 * e["value"].item<std::int64_t>()));
        return e;
      },
      {.adds = {{"twice", DType::i64, {}}}});
  Iterator run = data.keep({"twice"}).batch(5000).iterate();
  const Element batch = run.next().value();
  const auto values = batch["twice"].values<std::int64_t>();
  ASSERT_EQ(values.size(), 5000U);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], 2 * static_cast<std::int64_t>(i));
}

TEST(Keep, IsPartOfTheFingerprint) {
  const Dataset data = three(numbers(4));
  Iterator run = data.keep({"a"}).iterate();
  const std::string state = run.save();
  expect_error(ErrorCode::invalid_argument, "keep", [&] { (void)data.keep({"c"}).restore(state); });
}

}  // namespace keep_test
}  // namespace penstock
