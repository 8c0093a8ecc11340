#include <penstock/shape.h>

#include "tests/support/errors.h"

namespace penstock {
namespace {

TEST(Shape, Text) {
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ(Shape({0}).to_string(), "[0]");
  EXPECT_EQ(Shape({3, -1, 224}).to_string(), "[3,?,224]");
  EXPECT_EQ(Shape::unknown_rank().to_string(), "?");
}

TEST(Shape, Volume) {
  struct Case {
    Shape shape;
    std::int64_t volume;
  };
  const Case cases[] = {{Shape(), 1},
                        {Shape({0}), 0},
                        {Shape({2, 3}), 6},
                        {Shape({2, -1}), -1},
                        {Shape::unknown_rank(), -1},
                        {Shape({INT64_MAX, 1}), INT64_MAX},
                        {Shape({INT64_MAX, INT64_MAX, 0}), 0}};
  for (const Case& c : cases) EXPECT_EQ(c.shape.volume(), c.volume) << c.shape.to_string();
  test::expect_error(ErrorCode::out_of_range, "2^63", [] { (void)Shape({INT64_MAX, 2}).volume(); });
}

TEST(Shape, RejectsWhatIsNoShape) {
  EXPECT_EQ(Shape({1, 1, 1, 1, 1, 1}).rank(), 6);
  test::expect_error(ErrorCode::invalid_argument, "7 dimensions", [] {
    Shape({1, 1, 1, 1, 1, 1, 1});
  });
  test::expect_error(ErrorCode::invalid_argument, "dimension of -2", [] { Shape({4, -2}); });
  test::expect_error(ErrorCode::invalid_argument, "one more", [] {
    (void)Shape({1, 1, 1, 1, 1, 1}).prepend(2);
  });
  test::expect_error(ErrorCode::invalid_argument, "scalar", [] { (void)Shape().drop_front(); });
  test::expect_error(ErrorCode::invalid_argument, "no dimension 1",
                     [] { (void)Shape({1}).with(1, 2); });
}

TEST(Shape, Edits) {
  EXPECT_EQ(Shape({2, 3}).with(0, -1), Shape({-1, 3}));
  EXPECT_EQ(Shape({2, 3}).prepend(5), Shape({5, 2, 3}));
  EXPECT_EQ(Shape().prepend(5), Shape({5}));
  EXPECT_EQ(Shape({2, 3}).drop_front(), Shape({3}));
  EXPECT_EQ(Shape({2}).drop_front(), Shape());
  EXPECT_EQ(Shape::unknown_rank().prepend(1), Shape::unknown_rank());
  EXPECT_EQ(Shape::unknown_rank().drop_front(), Shape::unknown_rank());
  // What was dropped must not show in comparisons.
  EXPECT_FALSE(Shape({2, 3}) == Shape({2}));
  EXPECT_FALSE(Shape() == Shape::unknown_rank());
}

TEST(Shape, AcceptsAndRelaxes) {
  EXPECT_TRUE(Shape({-1, 3}).accepts(Shape({7, 3})));
  EXPECT_FALSE(Shape({-1, 3}).accepts(Shape({7, 4})));
  EXPECT_FALSE(Shape({-1, 3}).accepts(Shape({7})));
  EXPECT_FALSE(Shape({7}).accepts(Shape({-1})));
  EXPECT_FALSE(Shape().accepts(Shape::unknown_rank()));
  EXPECT_TRUE(Shape::unknown_rank().accepts(Shape({1, 2})));
  EXPECT_EQ(Shape::relax(Shape({2, 3}), Shape({2, 4})), Shape({2, -1}));
  EXPECT_EQ(Shape::relax(Shape({2, 3}), Shape({2})), Shape::unknown_rank());
  EXPECT_EQ(Shape::relax(Shape::unknown_rank(), Shape({2})), Shape::unknown_rank());
  EXPECT_EQ(Shape::relax(Shape({2, 3}), Shape({2, 3})), Shape({2, 3}));
}

TEST(Shape, Static) {
  EXPECT_TRUE(Shape().is_static());
  EXPECT_FALSE(Shape({-1}).is_static());
  EXPECT_FALSE(Shape::unknown_rank().is_static());
  EXPECT_FALSE(Shape::unknown_rank().has_rank());
}

}  // namespace
}  // namespace penstock
