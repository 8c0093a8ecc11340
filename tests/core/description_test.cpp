#include <penstock/description.h>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Description, Text) {
  Description description;
  EXPECT_EQ(description.to_string(), "");
  description.add("n", 3);
  description.add("big", std::uint64_t{18446744073709551615U});
  description.add("share", 0.1);
  description.add("drop", true);
  description.add("name", "x");
  description.add_shard("a.tar", 1024);
  description.add_shard("b.tar", 2048, 0xbeef);
  EXPECT_EQ(description.to_string(),
            "n=3, big=18446744073709551615, share=0.1, drop=true, name=x, shards=2");
  ASSERT_EQ(description.entries().size(), 7U);
  EXPECT_EQ(description.entries()[5].second, "1024 a.tar");
  EXPECT_EQ(description.entries()[6].second, "2048:beef b.tar");
}

TEST(Description, ExactDoubles) {
  Description description;
  description.add("x", 0.1 + 0.2);
  EXPECT_EQ(description.to_string(), "x=0.30000000000000004");
}

}  // namespace
}  // namespace penstock
