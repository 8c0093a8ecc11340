#include <penstock/map.h>

#include <stdexcept>

#include "tests/core/work_items.h"
#include "tests/support/context.h"
#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::HeapContext;
using test::items;
using testing::HasSubstr;

Tensor number(std::int64_t value) {
  return Tensor::scalar(value);
}

std::string component(int i) {
  std::string text = "c";
  return text += std::to_string(i);
}

Spec row_spec() {
  return Spec({{"row", DType::f32, Shape({32})}, {"n", DType::i64, {}}});
}

TEST(ElementOp, ReplacesElements) {
  const WorkOpPtr op = make_map_op(
      [](Element e) {
        e["x"] = number(e["x"].item<std::int64_t>() * 2);
        return e;
      },
      {.name = "double", .output = {}});
  EXPECT_EQ(op->name(), "double");
  const Spec spec({{"x", DType::i64, {}}});
  EXPECT_EQ(op->infer(spec), spec);
  auto work = items(3);
  HeapContext context;
  op->run(work, context);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(work[static_cast<std::size_t>(i)].status.ok());
    EXPECT_EQ(work[static_cast<std::size_t>(i)].element[0].item<std::int64_t>(), 2 * i);
  }
  EXPECT_EQ(context.allocations, 0U);
}

TEST(ElementOp, RandomNumbers) {
  const WorkOpPtr op = make_map_op(
      [](Element e, Rng& rng) {
        e["x"] = number(static_cast<std::int64_t>(rng.next_u64()));
        return e;
      },
      {});
  EXPECT_TRUE(op->random());
  auto work = items(4);
  HeapContext context(5, 6);
  op->run(work, context);
  for (const WorkItem& item : work) {
    EXPECT_EQ(item.element[0].item<std::int64_t>(),
              static_cast<std::int64_t>(Rng(5, item.ordinal, 6).next_u64()));
  }
}

TEST(ElementOp, Exceptions) {
  const WorkOpPtr op = make_map_op(
      [](Element e) -> Element {
        switch (e["x"].item<std::int64_t>()) {
          case 0:
            throw std::out_of_range("mine");
          case 1:
            throw Error(ErrorCode::data_loss, "damaged");
          case 2:
            (void)e["y"];
        }
        return e;
      },
      {});
  auto work = items(4);
  HeapContext context;
  op->run(work, context);
  EXPECT_EQ(work[0].status.error().code(), ErrorCode::user);
  EXPECT_THROW(std::rethrow_exception(work[0].status.error().original()), std::out_of_range);
  EXPECT_EQ(work[1].status.error().code(), ErrorCode::data_loss);
  EXPECT_EQ(work[2].status.error().code(), ErrorCode::not_found);
  EXPECT_TRUE(work[3].status.ok());
}

TEST(ElementOp, LeavesFailedAndDroppedAlone) {
  int calls = 0;
  const WorkOpPtr op = make_map_op(
      [&calls](Element e) {
        ++calls;
        return e;
      },
      {});
  auto work = items(3);
  work[0].status = Status(ErrorCode::data_loss, "before");
  work[1].keep = false;
  HeapContext context;
  op->run(work, context);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(work[0].status.error().cause(), "before");
}

TEST(ElementOp, ResultAndDeclaredSpec) {
  struct Case {
    Element result;
    std::string what;
  };
  const Case cases[] = {
      {{{"y", Tensor::of<float>({2}, {1, 2})}}, ""},
      {{{"y", number(1)}}, "component y: expected f32 [?], got i64 []"},
      {{{"y", Tensor::scalar(1.0F)}}, "component y: expected f32 [?], got f32 []"},
      {{{"z", Tensor::of<float>({2}, {1, 2})}}, "got component z"},
      {{}, "got nothing"}};
  for (const Case& c : cases) {
    const Spec output({{"y", DType::f32, Shape({-1})}});
    const WorkOpPtr op =
        make_map_op([&c](Element) { return c.result; }, {.name = "f", .output = output});
    EXPECT_EQ(op->infer(Spec()), output);
    auto work = items(1);
    HeapContext context;
    op->run(work, context);
    ASSERT_EQ(work[0].status.ok(), c.what.empty()) << c.what;
    if (!c.what.empty()) {
      EXPECT_THAT(work[0].status.error().cause(), HasSubstr(c.what));
      EXPECT_THAT(work[0].status.error().cause(), HasSubstr("'f'"));
    }
  }
}

TEST(ElementOp, ResultAndInput) {
  for (const int components : {1, 8, 9, 20}) {
    Element input;
    for (int i = 0; i < components; ++i) input.set(component(i), number(i));
    const std::string last = component(components - 1);
    const WorkOpPtr op = make_map_op(
        [&](Element e) {
          e[last] = Tensor::scalar(1.0F);
          return e;
        },
        {});
    std::vector<WorkItem> work(1);
    work[0].element = input;
    HeapContext context;
    op->run(work, context);
    ASSERT_FALSE(work[0].status.ok());
    EXPECT_THAT(work[0].status.error().cause(), HasSubstr(last + ": expected i64 ?, got f32"));
  }
  const WorkOpPtr adds = make_map_op(
      [](Element e) {
        e.set("extra", Tensor());
        return e;
      },
      {});
  auto work = items(1);
  HeapContext context;
  adds->run(work, context);
  EXPECT_THAT(work[0].status.error().cause(), HasSubstr("component extra: not expected"));
}

TEST(ElementOp, Batches) {
  const WorkOpPtr op = make_map_op([](Element e) { return Element{{"x", e["x"].clone()}}; }, {});
  std::vector<WorkItem> work(2);
  work[0].element = {{"x", Tensor::of<int>({4}, {1, 2, 3, 4})}};
  work[0].element.valid_rows = 3;
  work[1].element = {{"x", Tensor::of<int>({4}, {1, 2, 3, 4})}};
  HeapContext context;
  op->run(work, context);
  EXPECT_EQ(work[0].element.valid_rows, 3);
  EXPECT_EQ(work[1].element.valid_rows, -1);
}

TEST(ViewOp, WritesIntoTheRow) {
  const WorkOpPtr op = make_map_op(
      [](const Element& in, Element& out, Rng&) {
        const auto n = in["x"].item<std::int64_t>();
        for (float& value : out["row"].mutable_values<float>()) value = static_cast<float>(n);
        out["n"].mutable_values<std::int64_t>()[0] = n;
      },
      {.name = "fill", .output = row_spec()});
  std::vector<float> rows(3 * 32);
  std::vector<std::int64_t> numbers(3);
  std::byte* const bases[2] = {reinterpret_cast<std::byte*>(rows.data()),
                               reinterpret_cast<std::byte*>(numbers.data())};
  const std::size_t strides[2] = {32 * sizeof(float), sizeof(std::int64_t)};
  auto work = items(3);
  for (std::size_t i = 0; i < 3; ++i) work[i].row = Row(bases, strides, i);
  HeapContext context;
  op->run(work, context);
  EXPECT_EQ(context.allocations, 0U);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(work[i].status.ok());
    EXPECT_EQ(rows[i * 32 + 31], static_cast<float>(i));
    EXPECT_EQ(numbers[i], static_cast<std::int64_t>(i));
    EXPECT_EQ(work[i].element["row"].data(), bases[0] + i * strides[0]);
  }
}

TEST(ViewOp, MayExchangeWhatItWroteIntoTheRow) {
  for (const std::int64_t width : {2, 32}) {  // copied into the tensor, and to a buffer
    const Shape shape({width});
    const WorkOpPtr op = make_map_op(
        [](const Element&, Element& out, Rng&) {
          for (auto& value : out["a"].mutable_values<std::int64_t>()) value = 1;
          for (auto& value : out["b"].mutable_values<std::int64_t>()) value = 2;
          std::swap(out["a"], out["b"]);
        },
        {.name = "swap", .output = Spec({{"a", DType::i64, shape}, {"b", DType::i64, shape}})});
    std::vector<std::int64_t> a(static_cast<std::size_t>(width));
    std::vector<std::int64_t> b(a.size());
    std::byte* const bases[2] = {reinterpret_cast<std::byte*>(a.data()),
                                 reinterpret_cast<std::byte*>(b.data())};
    const std::size_t strides[2] = {a.size() * sizeof(a[0]), b.size() * sizeof(b[0])};
    auto work = items(1);
    work[0].row = Row(bases, strides, 0);
    HeapContext context;
    op->run(work, context);
    ASSERT_TRUE(work[0].status.ok());
    // As the engine does, one after the other.
    for (std::size_t i = 0; i < 2; ++i) work[0].element[i].copy_to(bases[i]);
    EXPECT_EQ(a.back(), 2);
    EXPECT_EQ(b.back(), 1);
  }
}

TEST(ViewOp, GetsABufferWithoutARow) {
  const WorkOpPtr op = make_map_op(
      [](const Element&, Element& out, Rng&) {
        for (float& value : out["row"].mutable_values<float>()) value = 1;
      },
      {.name = "fill", .output = row_spec()});
  auto work = items(2);
  HeapContext context;
  op->run(work, context);
  EXPECT_EQ(context.allocations, 2U);
  EXPECT_EQ(context.allocated_bytes, 2 * 32 * sizeof(float));
  EXPECT_EQ(work[1].element["row"].values<float>()[31], 1);
  EXPECT_EQ(row_spec().mismatch(work[1].element), "");
}

// Although small values live in their tensors from then on.
TEST(ViewOp, GivesViewsOfSmallValuesToo) {
  const WorkOpPtr op = make_map_op(
      [](const Element& in, Element& out, Rng&) {
        const auto n = in["x"].item<std::int64_t>();
        Tensor whole = out["whole"];
        for (auto& value : whole.mutable_values<std::int64_t>()) value = n;
        Tensor second = out["half"][1];
        for (auto& value : second.mutable_values<std::int64_t>()) value = n + 10;
        out["same"] = whole;
      },
      {.name = "fill",
       .output = Spec({{"whole", DType::i64, Shape({6})},
                       {"half", DType::i64, Shape({2, 2})},
                       {"same", DType::i64, Shape({6})}})});
  auto work = items(3);
  HeapContext context;
  op->run(work, context);
  EXPECT_EQ(context.allocations, 0U);
  for (std::int64_t i = 0; i < 3; ++i) {
    const WorkItem& item = work[static_cast<std::size_t>(i)];
    ASSERT_TRUE(item.status.ok());
    EXPECT_TRUE(item.element["whole"].is_inline());
    EXPECT_EQ(item.element["whole"].to_vector<std::int64_t>(), std::vector<std::int64_t>(6, i));
    EXPECT_EQ(item.element["same"].to_vector<std::int64_t>(), std::vector<std::int64_t>(6, i));
    EXPECT_EQ(item.element["half"].to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 0, i + 10, i + 10}));
  }
}

TEST(ViewOp, ChecksWhatWasReplacedAndKeepsErrors) {
  const WorkOpPtr replaces =
      make_map_op([](const Element&, Element& out, Rng&) { out["row"] = Tensor::scalar(1.0F); },
                  {.name = "wrong", .output = row_spec()});
  const WorkOpPtr throws =
      make_map_op([](const Element&, Element&, Rng&) { throw std::runtime_error("no"); },
                  {.name = "throws", .output = row_spec()});
  HeapContext context;
  auto work = items(1);
  replaces->run(work, context);
  EXPECT_THAT(work[0].status.error().cause(), HasSubstr("expected f32 [32], got f32 []"));
  work = items(1);
  throws->run(work, context);
  EXPECT_EQ(work[0].status.error().cause(), "no");
}

TEST(ViewOp, NeedsAFixedSize) {
  const ViewFn fn = [](const Element&, Element&, Rng&) {};
  expect_error(ErrorCode::invalid_argument, "'v'",
               [&] { make_view_op(fn, {.name = "v", .output = {}}); });
  expect_error(ErrorCode::invalid_argument, "bytes", [&] {
    make_view_op(fn, {.name = "v", .output = Spec({{"b", DType::bytes, {}}})});
  });
  expect_error(ErrorCode::invalid_argument, "[?]", [&] {
    make_view_op(fn, {.name = "v", .output = Spec({{"b", DType::u8, Shape({-1})}})});
  });
}

TEST(PredicateOp, DropsAndFails) {
  const WorkOpPtr op = make_predicate_op(
      [](const Element& e) {
        const auto x = e["x"].item<std::int64_t>();
        if (x == 2) throw std::runtime_error("two");
        return x % 2 == 0;
      },
      "even");
  auto work = items(4);
  HeapContext context;
  op->run(work, context);
  EXPECT_TRUE(work[0].keep);
  EXPECT_FALSE(work[1].keep);
  EXPECT_EQ(work[2].status.error().cause(), "two");
  EXPECT_FALSE(work[3].keep);
}

TEST(MapOps, RejectEmptyCallables) {
  expect_error(ErrorCode::invalid_argument, "'a'",
               [] { make_element_op(nullptr, {.name = "a", .output = {}}); });
  expect_error(ErrorCode::invalid_argument, "'b'",
               [] { make_view_op(nullptr, {.name = "b", .output = {}}); });
  expect_error(ErrorCode::invalid_argument, "'c'", [] { make_predicate_op(nullptr, "c"); });
}

}  // namespace
}  // namespace penstock
