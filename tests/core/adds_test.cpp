// Maps that say what they add.
#include <penstock/map.h>

#include "tests/core/work_items.h"
#include "tests/support/context.h"
#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;
using test::HeapContext;
using test::items;
using testing::HasSubstr;

Spec x_spec() {
  return Spec({{"x", DType::i64, {}}});
}

TEST(Adds, ExtendsTheInputsSpec) {
  const MapOptions options =
      resolve_adds({.adds = {{"y", DType::f32, {3}}, {"x", DType::u8, {}}}}, x_spec());
  EXPECT_EQ(options.output->to_string(), "{x: u8 [], y: f32 [3]}");
  EXPECT_FALSE(resolve_adds({}, x_spec()).output.has_value());
}

TEST(Adds, RefusesWhatContradictsItself) {
  expect_error(ErrorCode::invalid_argument, "map 'm': say either adds or output, not both", [] {
    (void)resolve_adds({.name = "m", .output = x_spec(), .adds = {{"y", DType::f32, {}}}},
                       x_spec());
  });
  expect_error(ErrorCode::invalid_argument, "map 'm': adds names 'y' twice", [] {
    (void)resolve_adds({.name = "m", .adds = {{"y", DType::f32, {}}, {"y", DType::f32, {}}}},
                       x_spec());
  });
  const MapOptions unresolved{.name = "m", .adds = {{"y", DType::f32, {}}}};
  const auto same = [](Element e) { return e; };
  expect_error(ErrorCode::invalid_argument, "adds needs the input's spec",
               [&] { (void)make_map_op(same, unresolved); });
  expect_error(ErrorCode::invalid_argument, "adds needs the input's spec",
               [&] { (void)make_batch_fn_op([](const Element&, Element&) {}, unresolved); });
  expect_error(ErrorCode::invalid_argument, "say output rather than adds", [&] {
    (void)make_map_op([](const Element&, Element&, Rng&) {}, resolve_adds(unresolved, x_spec()));
  });
}

// Callables that return what they add, whose type says whether it fits.
TEST(Adds, ChecksTheValuesTypeWhenTheGraphIsBuilt) {
  const auto half = [](const Element& e) {
    return static_cast<float>(e["x"].item<std::int64_t>()) / 2;
  };
  const auto op = [&](MapOptions options) {
    return make_map_op(half, resolve_adds(std::move(options), x_spec()));
  };
  EXPECT_EQ(op({.adds = {{"half", DType::f32, {}}}})->infer(x_spec()).to_string(),
            "{x: i64 [], half: f32 []}");
  expect_error(ErrorCode::invalid_argument,
               "map 'm': the callable returns f32, and adds says that half is i64 []", [&] {
                 (void)op({.name = "m", .adds = {{"half", DType::i64, {}}}});
               });
  expect_error(ErrorCode::invalid_argument,
               "the callable returns f32, and adds says that half is f32 [2]", [&] {
                 (void)op({.adds = {{"half", DType::f32, {2}}}});
               });
  expect_error(ErrorCode::invalid_argument,
               "the callable returns f32 rather than an element, so that it adds one component: "
               "say which, {.adds = {{\"name\", DType::f32}}}",
               [&] { (void)op({}); });
}

template <typename F>
std::string added(F fn, ComponentSpec component) {
  const WorkOpPtr op =
      make_map_op(std::move(fn), resolve_adds({.name = "m", .adds = {component}}, x_spec()));
  auto work = items(2);
  HeapContext context(5, 6);
  op->run(work, context);
  const WorkItem& last = work.back();
  if (!last.status.ok()) return last.status.error().cause();
  return op->infer(x_spec()).mismatch(last.element);
}

TEST(Adds, TakesNumbersTextsAndTensors) {
  EXPECT_EQ(added([](const Element&) { return 1LL; }, {"y", DType::i64, {}}), "");
  EXPECT_EQ(added([](const Element&) { return true; }, {"y", DType::boolean, {}}), "");
  EXPECT_EQ(added([](const Element&) { return "text"; }, {"y", DType::bytes, {}}), "");
  EXPECT_EQ(added([](const Element&) { return std::string("text"); }, {"y", DType::bytes, {}}), "");
  EXPECT_EQ(added([](const Element& e,
                     Rng& rng) { return rng.uniform() * (e[0].item<long long>() > 0 ? 1 : 2); },
                  {"y", DType::f64, {}}),
            "");
  const auto pair = [](const Element&) { return Tensor::of<float>({2}, {1, 2}); };
  EXPECT_EQ(added(pair, {"y", DType::f32, {2}}), "");
  // A tensor's type does not tell: the result does.
  EXPECT_THAT(added(pair, {"y", DType::f32, {3}}), HasSubstr("expected f32 [3], got f32 [2]"));
}

TEST(Adds, GivesTheValues) {
  const WorkOpPtr op = make_map_op([](const Element& e) { return 2 * e["x"].item<std::int64_t>(); },
                                   resolve_adds({.adds = {{"twice", DType::i64, {}}}}, x_spec()));
  EXPECT_FALSE(op->random());
  auto work = items(3);
  HeapContext context;
  op->run(work, context);
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(work[static_cast<std::size_t>(i)].element["twice"].item<std::int64_t>(), 2 * i);
}

}  // namespace
}  // namespace penstock
