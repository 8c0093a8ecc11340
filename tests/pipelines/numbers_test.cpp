#include "pipelines/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

TEST(ParseBytes, TakesPlainNumbersAndUnits) {
  const struct {
    const char* text;
    std::int64_t bytes;
  } kCases[] = {{"0", 0},
                {"1", 1},
                {"4096", 4096},
                {"9223372036854775807", INT64_MAX},
                {"7b", 7},
                {"96MiB", 96LL << 20},
                {"96mib", 96LL << 20},
                {"2GiB", 2LL << 30},
                {"1.5GB", 1'500'000'000},
                {"0.5KiB", 512},
                {"3kB", 3000},
                {"1TiB", 1LL << 40}};
  for (const auto& c : kCases) EXPECT_EQ(parse_bytes(c.text), c.bytes) << c.text;
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"", "MiB", "-1", "1 MiB", "1M", "1..5GB", "1e9", "9999999TiB", "0x10",
                           "12MiBs", "9223372036854775808", "nanGB", ".GB"})
    EXPECT_THROW(parse_bytes(text), UsageError) << text;
}

TEST(ParseInteger, TakesTheWholeRangeAndNothingElse) {
  EXPECT_EQ(parse_integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_integer("42"), 42);
  for (const char* text : {"", " 1", "1 ", "1.0", "1e3", "+1", "9223372036854775808", "x"})
    EXPECT_THROW(parse_integer(text), UsageError) << text;
}

TEST(ParseNumber, IsFinite) {
  EXPECT_EQ(parse_number("0.25"), 0.25);
  EXPECT_EQ(parse_number("-1e3"), -1000);
  for (const char* text : {"", "nan", "inf", "1e999", "1,5", "0.5x"})
    EXPECT_THROW(parse_number(text), UsageError) << text;
}

TEST(ParseExtent, TakesOneSideOrTwo) {
  EXPECT_EQ(parse_extent("224"), (Extent{224, 0}));
  EXPECT_EQ(parse_extent("375x500"), (Extent{375, 500}));
  EXPECT_EQ(parse_extent("65535x1"), (Extent{65535, 1}));
  for (const char* text : {"", "x", "0", "224x", "x224", "224x0", "-1", "65536", "1x65536", "2x2x2",
                           "99999999999", "1X1"})
    EXPECT_THROW(parse_extent(text), UsageError) << text;
}

TEST(ParseErrorBudget, TakesACountOrAShare) {
  EXPECT_EQ(parse_error_budget("0").count, 0U);
  EXPECT_EQ(parse_error_budget("100").count, 100U);
  EXPECT_EQ(parse_error_budget("100").share, std::nullopt);
  EXPECT_EQ(parse_error_budget("100%").share, 1.0);
  EXPECT_EQ(parse_error_budget("1%").share, 0.01);
  EXPECT_EQ(parse_error_budget("0.5%").share, 0.005);
  EXPECT_EQ(parse_error_budget("1%").count, UINT64_MAX);
  for (const char* text : {"", "%", "-1", "101%", "-1%", "nan%", "1.5", "x"})
    EXPECT_THROW(parse_error_budget(text), UsageError) << text;
}

TEST(UsageErrors, NameWhatWasExpectedAndFound) {
  try {
    parse_bytes("12 parsecs");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("such as 96MiB"));
    EXPECT_THAT(error.what(), testing::HasSubstr("\"12 parsecs\""));
  }
}

TEST(Human, WritesNumbersForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(36.75 * (1 << 20)), "36.8 MiB");
  EXPECT_EQ(human_bytes(double(1ULL << 40) * 5000), "5000.0 TiB");
  EXPECT_EQ(exact_bytes(96LL << 20), "96MiB");
  EXPECT_EQ(exact_bytes(1000), "1000");
  EXPECT_EQ(exact_bytes(0), "0");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(50'000'000), "50,000,000");
  EXPECT_EQ(human_count(842), "842");
  EXPECT_EQ(human_count(999.7), "1.00k");
  EXPECT_EQ(human_count(12'345), "12.3k");
  EXPECT_EQ(human_count(4.56e6), "4.56M");
  EXPECT_EQ(human_seconds(850e-9), "850 ns");
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(human_seconds(4.56), "4.56 s");
  EXPECT_EQ(human_seconds(187), "3 min 07 s");
  EXPECT_EQ(human_share(0.83), "83%");
  EXPECT_EQ(human_share(0.004), "0.4%");
  EXPECT_EQ(human_share(0), "0%");
}

TEST(Human, ExactBytesReadBack) {
  for (const std::int64_t bytes : {0LL, 1LL, 1023LL, 1024LL, 3LL << 20, (3LL << 20) + 1, 1LL << 50})
    EXPECT_EQ(parse_bytes(exact_bytes(bytes)), bytes);
}

}  // namespace
}  // namespace penstock::tool
