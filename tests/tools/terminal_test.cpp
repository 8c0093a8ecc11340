#include "tools/penstock/support/terminal.h"

#include <limits>

#include <gtest/gtest.h>

#include "report/table.h"

namespace penstock::tool {
namespace {

TEST(Terminal, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("naïve █"), 7U);
  EXPECT_EQ(display_width("\x1b[31mred\x1b[0m"), 3U);
  EXPECT_EQ(display_width("\x1b["), 0U) << "a cut sequence ends the text";
}

TEST(Terminal, CutsToFit) {
  EXPECT_EQ(fit("abcdef", 6), "abcdef");
  EXPECT_EQ(fit("abcdef", 5), "abcd…");
  EXPECT_EQ(fit("abcdef", 1), "…");
  EXPECT_EQ(fit("abcdef", 0), "");
  EXPECT_EQ(fit("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mab…\x1b[0m");
  EXPECT_EQ(pad("ab", 4), "ab  ");
  EXPECT_EQ(pad("ab", 4, true), "  ab");
  EXPECT_EQ(pad("abcde", 4), "abcde");
}

TEST(Terminal, WrapsAtBlanks) {
  EXPECT_EQ(wrap("", 5), "");
  EXPECT_EQ(wrap("one two three", 100), "one two three");
  EXPECT_EQ(wrap("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 6), "one\ntwo\nthree");
  EXPECT_EQ(wrap("a longerword b", 4), "a\nlongerword\nb");
}

TEST(Terminal, DrawsBarsToAnEighth) {
  EXPECT_EQ(bar(0, 4), "    ");
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.5, 4), "██  ");
  EXPECT_EQ(bar(1.0 / 32, 4), "▏   ");
  EXPECT_EQ(bar(7, 2), "██");
  EXPECT_EQ(bar(-1, 2), "  ");
  EXPECT_EQ(bar(std::numeric_limits<double>::quiet_NaN(), 2), "  ");
  for (int eighths = 0; eighths <= 80; ++eighths)
    EXPECT_EQ(display_width(bar(eighths / 80.0, 10)), 10U) << eighths;
}

TEST(Terminal, DrawsSparklines) {
  EXPECT_EQ(sparkline({}), "");
  EXPECT_EQ(sparkline({0, 0}), "▁▁");
  EXPECT_EQ(sparkline({0, 1, 2, 4}), "▁▃▅█");
}

TEST(Terminal, PaintsOnlyWhenAsked) {
  EXPECT_EQ(paint(Colour::red, "x", false), "x");
  EXPECT_EQ(paint(Colour::red, "x", true), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(paint(Colour::red, "", true), "");
}

TEST(Table, AlignsAndFits) {
  Table table({{"name"}, {"n", true}, {"what"}});
  table.add({"a", "1", "first"});
  table.add({"a name that is long", "1,234", "second"});
  const auto wide = table.lines(100, false);
  ASSERT_EQ(wide.size(), 3U);
  EXPECT_EQ(wide[0], "name                     n  what");
  EXPECT_EQ(wide[1], "a                        1  first");
  EXPECT_EQ(wide[2], "a name that is long  1,234  second");
  for (const std::size_t width : {20U, 26U, 30U, 33U, 34U})
    for (const std::string& line : table.lines(width, true))
      EXPECT_LE(display_width(line), width) << line;
  EXPECT_EQ(table.lines(30, false)[2], "a name that is…  1,234  second");
}

}  // namespace
}  // namespace penstock::tool
