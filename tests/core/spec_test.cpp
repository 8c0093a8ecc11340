#include <penstock/spec.h>

#include <penstock/element.h>

#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;

const Spec& images() {
  static const Spec spec({{"image", DType::u8, Shape({-1, -1, 3})}, {"label", DType::i64, {}}});
  return spec;
}

TEST(Spec, Text) {
  EXPECT_EQ(images().to_string(), "{image: u8 [?,?,3], label: i64 []}");
  EXPECT_EQ(Spec().to_string(), "{}");
}

TEST(Spec, RejectsNames) {
  expect_error(ErrorCode::invalid_argument, "component 1 has no name", [] {
    Spec({{"a", DType::u8, {}}, {"", DType::u8, {}}});
  });
  expect_error(ErrorCode::invalid_argument, "'a'", [] {
    Spec({{"a", DType::u8, {}}, {"a", DType::f32, {}}});
  });
}

TEST(Spec, Find) {
  EXPECT_EQ(images().find("label"), 1);
  EXPECT_EQ(images().find("labels"), -1);
  EXPECT_EQ(images().require("image"), 0U);
  expect_error(ErrorCode::not_found, "label: i64", [] { (void)images().require("key"); });
}

TEST(Spec, With) {
  EXPECT_EQ(images().with({"image", DType::f32, Shape({2})}).to_string(),
            "{image: f32 [2], label: i64 []}");
  EXPECT_EQ(Spec().with({"key", DType::bytes, {}}).to_string(), "{key: bytes []}");
}

TEST(Spec, Sizes) {
  EXPECT_FALSE(images().is_static());
  const Spec fixed = images().with({"image", DType::u8, Shape({2, 2, 3})});
  EXPECT_TRUE(fixed.is_fixed_size());
  EXPECT_TRUE(fixed.with({"key", DType::bytes, {}}).is_static());
  EXPECT_FALSE(fixed.with({"key", DType::bytes, {}}).is_fixed_size());
}

TEST(Spec, Mismatch) {
  const Tensor image = Tensor::allocate(DType::u8, {4, 5, 3});
  const Tensor label = Tensor::scalar<std::int64_t>(1);
  struct Case {
    Element element;
    std::string what;
  };
  const Case cases[] = {
      {{{"image", image}, {"label", label}}, ""},
      {{{"image", image}}, "component label: expected i64 [], got nothing"},
      {{}, "component image: expected u8 [?,?,3], got nothing"},
      {{{"label", label}, {"image", image}},
       "component image: expected u8 [?,?,3], got component label"},
      {{{"image", Tensor::scalar(1.0F)}, {"label", label}},
       "component image: expected u8 [?,?,3], got f32 []"},
      {{{"image", image.slice(2, 0, 1)}, {"label", label}},
       "component image: expected u8 [?,?,3], got u8 [4,5,1]"},
      {{{"image", image}, {"label", label}, {"key", label}},
       "component key: not expected, the spec is {image: u8 [?,?,3], label: i64 []}"}};
  for (const Case& c : cases) EXPECT_EQ(images().mismatch(c.element), c.what);
}

TEST(Spec, Relax) {
  const Spec other = images().with({"image", DType::u8, Shape({7, 8, 3})});
  EXPECT_EQ(Spec::relax(images(), other, "concatenate"), images());
  EXPECT_EQ(Spec::relax(other, images().with({"image", DType::u8, Shape({3})}), "x")[0].shape,
            Shape::unknown_rank());
  const Spec wrong = images().with({"label", DType::i32, {}});
  expect_error(ErrorCode::invalid_argument, "label: i32",
               [&] { Spec::relax(images(), wrong, "concatenate"); });
  expect_error(ErrorCode::invalid_argument, "stage concatenate",
               [&] { Spec::relax(images(), Spec(), "concatenate"); });
}

}  // namespace
}  // namespace penstock
