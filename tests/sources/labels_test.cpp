// Classes from the names of files, by expressions that anybody may have written.
#include "pipeline/sources/labels.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace penstock {
namespace {

using testing::ElementsAre;

TEST(Labels, Rules) {
  EXPECT_EQ(LabelRule("").text("a/b/c.jpg"), "b");
  EXPECT_EQ(LabelRule("").text("c.jpg"), ".");
  EXPECT_EQ(LabelRule("(\\d+)").text("12/x34.jpg"), "34");
  EXPECT_EQ(LabelRule("(\\d+)/").text("12/x34.jpg"), "12");
  EXPECT_EQ(LabelRule("(\\d+)").text("x.jpg"), std::nullopt);
  EXPECT_EQ(LabelRule("^(?:a|b\\d{1,3}?)_(\\w+?)[-.]").text("b12_cat-1.jpg"), "cat");
  EXPECT_EQ(LabelRule("^(x)?y").text("y.jpg"), "");
  EXPECT_EQ(LabelRule("^([^_]+)_").text("\xe4\xf6_1.jpg"), "\xe4\xf6") << "names are bytes";
  EXPECT_EQ(LabelRule("^([^_]+)_").text("gr\u00f6\u00dfe_1.jpg"), "gr\u00f6\u00dfe");
  const std::string long_name(1 << 20, 'x');
  EXPECT_EQ(LabelRule("(x+)$").text(long_name), long_name);
}

TEST(Labels, ExpressionsThatAreRefused) {
  struct Row {
    std::string regex;
    const char* says;
  };
  const Row rows[] = {
      {"(", "missing )"},
      {"x", "must have one group, not 0"},
      {"(x)(y)", "must have one group, not 2"},
      {"(?=x)(y)", "invalid perl operator: (?="},
      {"(x)\\1", "invalid escape sequence: \\1"},
      {"(x{1001})", "invalid repetition size: {1001}"},
      {"((((x{100}){100}){100}){100})", "invalid repetition size"},
      {"((?:(?:x{30}){30}y){30}|(?:(?:\\pL{30}){30}y))", "not understood"},
      {std::string(LabelRule::kLongest + 1, 'x'), "1025 bytes, more than the 1024"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.regex);
    test::expect_error(ErrorCode::invalid_argument, row.says, [&] { LabelRule rule(row.regex); });
  }
}

// A matcher that tries one way after the other needs 2^N steps, one that calls itself a stack as
// deep as its input.
TEST(Labels, ExpressionsInLinearTime) {
  const std::string names(1 << 16, 'a');
  EXPECT_EQ(LabelRule("^((?:a+)+)$").text(names + "!"), std::nullopt);
  EXPECT_EQ(LabelRule("^((?:a|aa)+)$").text(names + "!"), std::nullopt);
  EXPECT_EQ(LabelRule("^((?:a|b|ab)*?)c").text(names), std::nullopt);
  const std::string nested = std::string(500, '(') + 'a' + std::string(500, ')');
  test::expect_error(ErrorCode::invalid_argument, "must have one group, not 500",
                     [&] { LabelRule rule(nested); });
  std::string open;
  for (int i = 0; i < 250; ++i) open += "(?:";
  LabelRule("(" + open + "a" + std::string(250, ')') + ")");
}

TEST(Labels, OrderOfClasses) {
  ClassCounter counter;
  for (const char* text : {"b", "a", "B", "b", "10", "9"}) counter.add(text);
  EXPECT_EQ(counter.size(), 5U);
  const Classes classes = counter.take();
  EXPECT_THAT(classes.names, ElementsAre("10", "9", "B", "a", "b"));
  EXPECT_THAT(classes.labels, ElementsAre(4, 3, 2, 4, 0, 1));
}

}  // namespace
}  // namespace penstock
