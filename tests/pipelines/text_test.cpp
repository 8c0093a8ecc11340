#include "pipelines/text.h"

#include <gtest/gtest.h>

namespace penstock::tool {
namespace {

TEST(Printable, KeepsTextAndShowsTheRest) {
  EXPECT_EQ(printable("naïve ☂ 𝄞"), "naïve ☂ 𝄞");
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\n\x7f"), "\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "C1 controls steer terminals too";
}

TEST(Printable, ShowsBrokenUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xe0\x80\x80"), "\\xe0\\x80\\x80") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond U+10FFFF";
}

TEST(InQuotes, CutsLongTexts) {
  EXPECT_EQ(in_quotes("x"), "\"x\"");
  EXPECT_EQ(in_quotes(std::string(80, 'a')), "\"" + std::string(80, 'a') + "\"");
  EXPECT_EQ(in_quotes(std::string(81, 'a')), "\"" + std::string(80, 'a') + "…\"");
}

TEST(Split, KeepsEmptyParts) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split("a", ','), Parts{"a"});
  EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "", "b", ""}));
  EXPECT_EQ(join({"", "b"}, ", "), ", b");
}

TEST(Closest, FindsSlipsOfTheFinger) {
  const std::vector<std::string> known{"shuffle", "shard", "batch"};
  EXPECT_EQ(closest("shufle", known), "shuffle");
  EXPECT_EQ(closest("bacth", known), "batch");
  EXPECT_EQ(closest("shards", known), "shard");
  EXPECT_EQ(closest("resize", known), "");
  EXPECT_EQ(closest("", known), "");
  EXPECT_EQ(suggestion("shufle", known), "; did you mean shuffle?");
}

}  // namespace
}  // namespace penstock::tool
