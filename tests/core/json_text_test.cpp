#include "pipeline/core/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(JsonText, IsSoundWhateverTheText) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01\x7f"), "\"a\\\"b\\\\c\\u000a\\u0001\x7f\"");
  EXPECT_EQ(json_string("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  for (const char* bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_THAT(json_string(bad), HasSubstr("\xef\xbf\xbd")) << bad;
  EXPECT_TRUE(is_utf8("\xc3\xa4"));
  EXPECT_FALSE(is_utf8("\xe2\x82"));
  EXPECT_EQ(hex_of(std::string_view("\0\xff", 2)), "00ff");
}

}  // namespace
}  // namespace penstock
