// How reads become requests: merged, cut, and never too much between them.
#include <gtest/gtest.h>

#include "pipeline/http/http_file.h"

namespace penstock::http {
namespace {

struct Shape {
  std::uint64_t first, end;
  std::size_t parts;
  friend bool operator==(const Shape&, const Shape&) = default;
  friend void PrintTo(const Shape& shape, std::ostream* out) {
    *out << shape.first << '-' << shape.end << " in " << shape.parts;
  }
};

std::vector<Shape> shapes(std::vector<std::pair<std::uint64_t, std::size_t>> parts,
                          std::uint64_t gap, std::size_t most) {
  static std::byte somewhere[1];
  std::vector<RangePart> all;
  for (const auto& [offset, size] : parts) all.push_back({offset, size, somewhere});
  std::vector<Shape> out;
  for (const RangeGet& get : gets_of(all, gap, most))
    out.push_back({get.first(), get.end(), get.parts.size()});
  return out;
}

TEST(Parts, Neighbours) {
  EXPECT_EQ(shapes({{100, 10}, {0, 100}}, 0, 1000), (std::vector<Shape>{{0, 110, 2}}));
  EXPECT_EQ(shapes({{0, 100}, {110, 100}}, 9, 1000),
            (std::vector<Shape>{{0, 100, 1}, {110, 210, 1}}));
  EXPECT_EQ(shapes({{0, 100}, {110, 100}}, 10, 1000), (std::vector<Shape>{{0, 210, 2}}));
}

TEST(Parts, SizeOfGaps) {
  EXPECT_EQ(shapes({{0, 10}, {20, 10}}, 1000, 1000), (std::vector<Shape>{{0, 10, 1}, {20, 30, 1}}));
  std::vector<std::pair<std::uint64_t, std::size_t>> parts;
  for (std::uint64_t i = 0; i < 100; ++i) parts.push_back({i * 140, 100});
  std::uint64_t fetched = 0;
  for (const Shape& shape : shapes(parts, 1000, 1 << 20)) fetched += shape.end - shape.first;
  EXPECT_LE(fetched, 100 * 125U);
}

TEST(Parts, LargeParts) {
  EXPECT_EQ(shapes({{5, 25}}, 0, 10), (std::vector<Shape>{{5, 15, 1}, {15, 25, 1}, {25, 30, 1}}));
  EXPECT_EQ(shapes({{0, 6}, {6, 6}}, 0, 10), (std::vector<Shape>{{0, 10, 2}, {10, 12, 1}}));
}

TEST(Parts, RepeatedPart) {
  EXPECT_EQ(shapes({{0, 10}, {0, 10}, {5, 10}}, 100, 100).size(), 3);
}

}  // namespace
}  // namespace penstock::http
