// Columns and features as flags and TOML name them.
#include "pipelines/typed_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>

#include "pipelines/kinds.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

using ::testing::HasSubstr;

TEST(TypedName, Parts) {
  const struct {
    const char* text;
    const char* name;
    std::optional<DType> dtype;
    std::optional<std::string> default_value;
  } kCases[] = {
      {"a", "a", {}, {}},
      {"a:i64", "a", DType::i64, {}},
      {"a:b:bytes", "a:b", DType::bytes, {}},
      {"a:i64=0", "a", DType::i64, "0"},
      {"a:f32=nan", "a", DType::f32, "nan"},
      {"a:bytes=", "a", DType::bytes, ""},
      {"a:bytes=x:i64=3", "a", DType::bytes, "x:i64=3"},
      {"a=b", "a=b", {}, {}},
      {"a=b:f64=-1.5e3", "a=b", DType::f64, "-1.5e3"},
      {"a:x=1:i64", "a:x=1", DType::i64, {}},
      {" a b :bytes= c", " a b ", DType::bytes, " c"},
  };
  for (const auto& [text, name, dtype, value] : kCases) {
    const TypedName one = parse_typed_name(text);
    EXPECT_EQ(one.name, name) << text;
    EXPECT_EQ(one.dtype, dtype) << text;
    EXPECT_EQ(one.default_value, value) << text;
  }
  for (const char* text : {"a:int", "a:float=1", "a:", "a:=1"})
    EXPECT_THROW(static_cast<void>(parse_typed_name(text)), Error) << text;
}

TEST(TypedName, DefaultsOfFeatures) {
  const auto features =
      parse_features({"n:i64=-7", "f:f32=inf", "s:bytes=a b", "class/label:i64=3"});
  EXPECT_EQ(features[0].default_value->item<std::int64_t>(), -7);
  EXPECT_EQ(features[1].default_value->item<float>(), std::numeric_limits<float>::infinity());
  EXPECT_EQ(features[2].default_value->bytes_at(), "a b");
  EXPECT_EQ(features[3].component, "label");
  EXPECT_FALSE(parse_features({"n:i64"})[0].default_value);
  for (const char* text : {"n:i64=", "n:i64=1.5", "n:i64=x", "f:f32=1,5", "f:f32="}) {
    try {
      static_cast<void>(parse_features({text}));
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("the default of feature")) << text;
    }
  }
}

TEST(TypedName, Sequences) {
  const struct {
    const char* text;
    const char* key;
    DType dtype;
    std::optional<Shape> step;
  } kCases[] = {{"a", "a", DType::bytes, {}},
                {"a:i64", "a", DType::i64, {}},
                {"a/label", "a/label", DType::i64, {}},
                {"a:f32[]", "a", DType::f32, Shape()},
                {"a:f32[1024]", "a", DType::f32, Shape({1024})},
                {"a:b:bytes[2x3]", "a:b", DType::bytes, Shape({2, 3})},
                {"a[0]:bytes", "a[0]", DType::bytes, {}},
                {"a[0]:i64[1]", "a[0]", DType::i64, Shape({1})}};
  for (const auto& [text, key, dtype, step] : kCases) {
    const SequenceSpec spec = parse_sequences({text}).front();
    EXPECT_EQ(spec.key, key) << text;
    EXPECT_EQ(spec.dtype, dtype) << text;
    EXPECT_EQ(spec.step, step) << text;
  }
  for (const char* text : {":i64", "a:i64=0", "a:i64[0]", "a:i64[-1]", "a[]", "a[4]", "a:int[4]",
                           "a:i64[2x]", "a:i64[1x1x1x1x1x1]"})
    EXPECT_THROW(static_cast<void>(parse_sequences({text})), UsageError) << text;
}

}  // namespace
}  // namespace penstock::tool
