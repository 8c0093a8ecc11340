#include "tools/penstock/report/digest.h"

#include <gtest/gtest.h>
#include <xxhash.h>

namespace penstock::tool {
namespace {

Element batch(std::int64_t valid_rows, std::initializer_list<std::int64_t> labels) {
  Element element;
  element.set("label",
              Tensor::of<std::int64_t>({static_cast<std::int64_t>(labels.size())}, labels));
  element.valid_rows = valid_rows;
  return element;
}

std::uint64_t digest_of(const Element& element) {
  return Digest().add(element);
}

void put(std::string& text, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) text += static_cast<char>(value >> (8 * i));
}

TEST(Digest, IsWhatTheDocumentDefines) {
  Element element;
  element.set("b", Tensor::of<std::uint8_t>({2, 1}, {7, 9}));
  element.set("a", Tensor::copy_bytes("xyz"));
  std::string fed;
  put(fed, 1);
  fed += "a";
  put(fed, 5);
  fed += "bytes";
  put(fed, 0);
  put(fed, 3);
  fed += "xyz";
  put(fed, 1);
  fed += "b";
  put(fed, 2);
  fed += "u8";
  put(fed, 2);
  put(fed, 2);
  put(fed, 1);
  fed += "\x07\x09";
  const std::uint64_t expected = XXH3_64bits(fed.data(), fed.size());
  Digest digest;
  EXPECT_EQ(digest.add(element), expected);
  std::string whole;
  put(whole, expected);
  EXPECT_EQ(digest.total(), XXH3_64bits(whole.data(), whole.size()));
}

TEST(Digest, DependsOnEverythingThatCounts) {
  const std::uint64_t base = digest_of(batch(2, {1, 2}));
  EXPECT_EQ(digest_of(batch(2, {1, 2})), base);
  EXPECT_NE(digest_of(batch(2, {2, 1})), base) << "values";
  EXPECT_NE(digest_of(batch(1, {1, 2})), base) << "rows";
  Element renamed;
  renamed.set("x", Tensor::of<std::int64_t>({2}, {1, 2}));
  renamed.valid_rows = 2;
  EXPECT_NE(digest_of(renamed), base) << "name";
  Element shaped;
  shaped.set("label", Tensor::of<std::int64_t>({2, 1}, {1, 2}));
  shaped.valid_rows = 2;
  EXPECT_NE(digest_of(shaped), base) << "shape";
  Element typed;
  typed.set("label", Tensor::of<std::uint64_t>({2}, {1, 2}));
  typed.valid_rows = 2;
  EXPECT_NE(digest_of(typed), base) << "dtype";
}

TEST(Digest, LeavesPaddingOut) {
  EXPECT_EQ(digest_of(batch(2, {1, 2, 99})), digest_of(batch(2, {1, 2, -5})));
  EXPECT_EQ(digest_of(batch(2, {1, 2, 99})), digest_of(batch(2, {1, 2})));
  EXPECT_EQ(digest_of(batch(0, {1})), digest_of(batch(0, {2})));
}

TEST(Digest, DoesNotDependOnTheOrderOfComponentsOrOnStrides) {
  const Tensor wide = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  Element one;
  one.set("a", wide.slice(1, 0, 2));
  one.set("b", Tensor::scalar(1.0F));
  Element other;
  other.set("b", Tensor::scalar(1.0F));
  other.set("a", Tensor::of<float>({2, 2}, {1, 2, 4, 5}));
  EXPECT_EQ(digest_of(one), digest_of(other));
}

TEST(Digest, SeparatesByteStrings) {
  const std::string_view first[] = {"ab", "c"};
  const std::string_view second[] = {"a", "bc"};
  Element one;
  one.set("t", Tensor::of_bytes(first));
  Element other;
  other.set("t", Tensor::of_bytes(second));
  EXPECT_NE(digest_of(one), digest_of(other));
}

TEST(Digest, OrderOfBatches) {
  Digest forward;
  forward.add(batch(1, {1}));
  forward.add(batch(1, {2}));
  Digest backward;
  backward.add(batch(1, {2}));
  backward.add(batch(1, {1}));
  EXPECT_NE(forward.total(), backward.total());
  EXPECT_NE(forward.total(), Digest().total());
}

TEST(Hex16, FillsWithZeros) {
  EXPECT_EQ(hex16(0), "0000000000000000");
  EXPECT_EQ(hex16(0xABCULL), "0000000000000abc");
  EXPECT_EQ(hex16(UINT64_MAX), "ffffffffffffffff");
}

}  // namespace
}  // namespace penstock::tool
