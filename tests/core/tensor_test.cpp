#include <penstock/tensor.h>

#include <numeric>
#include <string>

#include "tests/support/errors.h"

namespace penstock {
namespace {

using test::expect_error;
using testing::ElementsAre;

std::vector<int> iota(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// Two sizes: one lives inside the object, one in a buffer.
class Matrix : public testing::TestWithParam<int> {
 protected:
  int rows() const { return GetParam(); }
  Tensor make() const { return Tensor::of<int>(Shape({rows(), 3}), iota(rows() * 3)); }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Matrix, testing::Values(1, 2, 4, 5, 100));

TEST_P(Matrix, Rows) {
  const Tensor tensor = make();
  EXPECT_EQ(static_cast<bool>(tensor.owner()), rows() * 12 > 48);
  EXPECT_EQ(tensor.nbytes(), static_cast<std::size_t>(rows()) * 12);
  for (int i = 0; i < rows(); ++i) {
    const Tensor row = tensor[i];
    EXPECT_TRUE(row.contiguous());
    EXPECT_EQ(row.shape(), Shape({3}));
    EXPECT_THAT(row.to_vector<int>(), ElementsAre(3 * i, 3 * i + 1, 3 * i + 2));
    EXPECT_EQ(row[1].item<int>(), 3 * i + 1);
  }
  expect_error(ErrorCode::out_of_range, "index", [&] { (void)tensor[rows()]; });
  expect_error(ErrorCode::out_of_range, "index -1", [&] { (void)tensor[-1]; });
}

TEST_P(Matrix, EverySlice) {
  const Tensor tensor = make();
  for (int axis = 0; axis < 2; ++axis) {
    const auto extent = static_cast<int>(std::min<std::int64_t>(tensor.dim(axis), 6));
    for (int start = 0; start <= extent; ++start) {
      for (int stop = start; stop <= extent; ++stop) {
        for (int step = 1; step <= extent + 1; ++step) {
          std::vector<int> expected;
          for (int r = 0; r < rows(); ++r) {
            for (int c = 0; c < 3; ++c) {
              const int at = axis == 0 ? r : c;
              if (at >= start && at < stop && (at - start) % step == 0) {
                expected.push_back(r * 3 + c);
              }
            }
          }
          const Tensor slice = tensor.slice(axis, start, stop, step);
          ASSERT_EQ(slice.to_vector<int>(), expected);
          ASSERT_EQ(slice.volume(), static_cast<std::int64_t>(expected.size()));
          ASSERT_EQ(slice.clone().to_vector<int>(), expected);
          std::vector<int> copy(expected.size());
          slice.copy_to(reinterpret_cast<std::byte*>(copy.data()));
          ASSERT_EQ(copy, expected);
        }
      }
    }
  }
}

TEST_P(Matrix, LifetimeOfSlices) {
  Tensor column = make().slice(1, 1, 2);
  const Tensor moved = std::move(column);
  std::vector<int> expected;
  for (int r = 0; r < rows(); ++r) expected.push_back(r * 3 + 1);
  EXPECT_EQ(moved.to_vector<int>(), expected);
  EXPECT_EQ(moved.slice(0, 0, rows(), 2).to_vector<int>().size(),
            static_cast<std::size_t>((rows() + 1) / 2));
}

TEST(Tensor, SliceOfSlice) {
  const Tensor tensor = Tensor::of<int>({4, 5, 6}, iota(120));
  const Tensor a = tensor.slice(2, 1, 6, 2).slice(0, 1, 4, 2).slice(1, 4, 5);
  EXPECT_EQ(a.shape(), Shape({2, 1, 3}));
  EXPECT_FALSE(a.contiguous());
  EXPECT_THAT(a.to_vector<int>(), ElementsAre(55, 57, 59, 115, 117, 119));
  EXPECT_THAT(a[1].to_vector<int>(), ElementsAre(115, 117, 119));
  EXPECT_EQ(a.owner(), tensor.owner());
  EXPECT_EQ(tensor.slice(0, 1, 3).data(), tensor.data() + 30 * sizeof(int));
  EXPECT_TRUE(tensor.slice(0, 1, 3).contiguous());
  EXPECT_TRUE(tensor.slice(0, 2, 3).slice(1, 1, 2).contiguous());
}

TEST(Tensor, InvalidSlices) {
  const Tensor tensor = Tensor::of<int>({4}, iota(4));
  expect_error(ErrorCode::out_of_range, "[0, 5)", [&] { (void)tensor.slice(0, 0, 5); });
  expect_error(ErrorCode::out_of_range, "[-1, 2)", [&] { (void)tensor.slice(0, -1, 2); });
  expect_error(ErrorCode::out_of_range, "[3, 2)", [&] { (void)tensor.slice(0, 3, 2); });
  expect_error(ErrorCode::out_of_range, "step 0", [&] { (void)tensor.slice(0, 0, 4, 0); });
  expect_error(ErrorCode::out_of_range, "axis 1", [&] { (void)tensor.slice(1, 0, 1); });
  expect_error(ErrorCode::out_of_range, "i32 []", [&] { (void)Tensor::scalar(1)[0]; });
}

TEST(Tensor, HugeStep) {
  const Tensor tensor = Tensor::of<int>({4, 3}, iota(12));
  EXPECT_THAT(tensor.slice(0, 1, 4, INT64_MAX).to_vector<int>(), ElementsAre(3, 4, 5));
}

TEST(Tensor, CheckedAccess) {
  Tensor tensor = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(tensor.values<float>(), ElementsAre(1, 2, 3, 4));
  tensor.mutable_values<float>()[3] = 5;
  EXPECT_EQ(tensor[1][1].item<float>(), 5);
  expect_error(ErrorCode::invalid_argument, "read as f64", [&] { (void)tensor.values<double>(); });
  expect_error(ErrorCode::invalid_argument, "number of values",
               [&] { (void)tensor.item<float>(); });
  expect_error(ErrorCode::invalid_argument, "strided", [] {
    (void)Tensor::of<int>({8, 2}, iota(16)).slice(1, 0, 1).values<int>();
  });
  expect_error(ErrorCode::invalid_argument, "number of values", [] {
    Tensor::of<int>({3}, {1, 2});
  });
  expect_error(ErrorCode::invalid_argument, "number of values", [] {
    Tensor::of<int>({1}, {1, 2});
  });
  expect_error(ErrorCode::invalid_argument, "read as bytes", [&] { (void)tensor.bytes_at(); });
}

TEST(Tensor, InvalidAllocations) {
  expect_error(ErrorCode::invalid_argument, "[?]",
               [] { Tensor::allocate(DType::u8, Shape({-1})); });
  expect_error(ErrorCode::invalid_argument, "byte strings",
               [] { Tensor::allocate(DType::bytes, Shape({2})); });
  expect_error(ErrorCode::out_of_range, "too large",
               [] { Tensor::allocate(DType::f64, Shape({INT64_MAX})); });
  expect_error(ErrorCode::resource_exhausted, "no memory",
               [] { Tensor::allocate(DType::u8, Shape({INT64_MAX})); });
}

TEST(Tensor, EmptyTensors) {
  const Tensor nothing;
  EXPECT_EQ(nothing.dtype(), DType::u8);
  EXPECT_EQ(nothing.shape(), Shape({0}));
  EXPECT_EQ(nothing.volume(), 0);
  EXPECT_TRUE(nothing.to_vector<std::uint8_t>().empty());
  const Tensor rows = Tensor::of<int>({0, 4}, std::initializer_list<int>{});
  EXPECT_EQ(rows.clone().shape(), Shape({0, 4}));
  EXPECT_TRUE(rows.slice(1, 1, 3, 2).to_vector<int>().empty());
  EXPECT_EQ(rows.reshape({4, 0}).shape(), Shape({4, 0}));
}

TEST(Tensor, Reshape) {
  const Tensor tensor = Tensor::of<int>({2, 3}, iota(6));
  EXPECT_THAT(tensor.reshape({3, 2})[2].to_vector<int>(), ElementsAre(4, 5));
  EXPECT_EQ(Tensor::scalar(7).reshape({1, 1}).shape(), Shape({1, 1}));
  expect_error(ErrorCode::invalid_argument, "[4]", [&] { (void)tensor.reshape({4}); });
  expect_error(ErrorCode::invalid_argument, "strided", [] {
    (void)Tensor::of<int>({8, 2}, iota(16)).slice(1, 0, 1).reshape({8});
  });
}

TEST(Tensor, CopiesAndMoves) {
  Tensor tensor = Tensor::of<int>({100}, iota(100));
  const Tensor copy = tensor;
  EXPECT_EQ(copy.data(), tensor.data());
  EXPECT_FALSE(tensor.owner()->unique());
  Tensor moved = std::move(tensor);
  EXPECT_EQ(moved.data(), copy.data());
  tensor = moved.clone();
  EXPECT_NE(tensor.data(), copy.data());
  EXPECT_TRUE(tensor.owner()->unique());
}

TEST(Tensor, Bytes) {
  const std::string text = "a somewhat longer string than fits anywhere";
  Tensor own = Tensor::copy_bytes(text);
  EXPECT_EQ(own.bytes_at(), text);
  EXPECT_NE(static_cast<const void*>(own.bytes_at().data()), text.data());
  EXPECT_EQ(own.rank(), 0);
  Tensor kept = own.clone();
  own = Tensor();
  EXPECT_EQ(kept.bytes_at(), text);
  EXPECT_EQ(Tensor::copy_bytes("").bytes_at(), "");
  EXPECT_EQ(Tensor::bytes(text, BufferPtr()).bytes_at().data(), text.data());
  EXPECT_EQ(Tensor::allocate(DType::bytes, Shape()).bytes_at(), "");
}

TEST(Tensor, VectorsOfBytes) {
  for (const int count : {0, 1, 3, 4, 50}) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) texts.push_back("text number " + std::to_string(i));
    Tensor tensor = Tensor::of_bytes(std::vector<std::string_view>(texts.begin(), texts.end()));
    EXPECT_EQ(tensor.shape(), Shape({count}));
    Tensor clone = tensor.clone();
    Tensor odd = tensor.slice(0, count > 1 ? 1 : 0, count, 2).clone();
    Tensor last = count > 0 ? tensor[count - 1] : Tensor();
    tensor = Tensor();
    for (int i = 0; i < count; ++i)
      EXPECT_EQ(clone.bytes_at(i), texts[static_cast<std::size_t>(i)]);
    if (count > 1) {
      EXPECT_EQ(odd.bytes_at(0), texts[1]);
    }
    if (count > 0) {
      EXPECT_EQ(last.bytes_at(), texts.back());
    }
    expect_error(ErrorCode::out_of_range, "position", [&] { (void)clone.bytes_at(count); });
    expect_error(ErrorCode::out_of_range, "position", [&] { (void)clone.bytes_at(-1); });
  }
}

TEST(Tensor, ViewsOfForeignMemory) {
  std::vector<double> values = {1, 2, 3, 4, 5, 6};
  Tensor view(DType::f64, Shape({2, 3}), reinterpret_cast<std::byte*>(values.data()), BufferPtr());
  view.mutable_values<double>()[5] = 7;
  EXPECT_EQ(values[5], 7);
  EXPECT_THAT(view.slice(1, 2, 3).to_vector<double>(), ElementsAre(3, 7));
}

TEST(Tensor, StoresIntegersOfAnyName) {
  EXPECT_EQ(Tensor::scalar(1LL).dtype(), DType::i64);
  EXPECT_EQ(Tensor::scalar(1LL).item<std::int64_t>(), 1);
  EXPECT_EQ(Tensor::scalar(-7LL).item<long long>(), -7);
  EXPECT_EQ(Tensor::scalar(~0ULL).dtype(), DType::u64);
  EXPECT_EQ(Tensor::scalar(~0ULL).item<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(Tensor::scalar(1L).dtype(), DType::i64);
  EXPECT_EQ(Tensor::scalar(1).dtype(), DType::i32);
}

}  // namespace
}  // namespace penstock
