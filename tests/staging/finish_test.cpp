// The finishing kernels, on each device, against a loop that is written differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include <penstock/finish.h>
#include <penstock/rng.h>

#include "staging/finish_functor.h"
#include "tests/staging/batches.h"
#include "tests/staging/beds.h"

namespace penstock {
namespace {

class Finish : public test::OnEachDevice {
 protected:
  /// A copy of host values in device memory, until the end of the test.
  template <typename T>
  T* to_device(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    std::byte* data = memory(bytes);
    const Stream stream(shared(), "copy");
    stream.view().copy({data, values.data(), bytes});
    stream.view().synchronize();
    return reinterpret_cast<T*>(data);
  }
  std::byte* memory(std::size_t bytes) {
    regions_.emplace_back(device().allocate(bytes + 1), bytes + 1);
    return regions_.back().first;
  }
  void TearDown() override {
    for (const auto& [data, bytes] : regions_) device().deallocate(data, bytes);
    regions_.clear();
  }

  std::vector<std::pair<std::byte*, std::size_t>> regions_;
};

float as_float(const std::vector<std::byte>& bytes, std::size_t at, DType dtype) {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * at, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + 2 * at, 2);
  return dtype == DType::f16 ? float_from_half({bits}) : float_from_bfloat16({bits});
}

float rounded(float value, DType dtype) {
  if (dtype == DType::f16) return float_from_half(half_from_float(value));
  if (dtype == DType::bf16) return float_from_bfloat16(bfloat16_from_float(value));
  return value;
}

TEST_P(Finish, EveryTypeLayoutAndSize) {
  const Stream stream(shared(), "finish");
  Rng rng(3, 0, 0);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool first : {true, false}) {
      for (const std::int64_t channels : {1, 3, 4}) {
        constexpr std::int64_t kCount = 3;
        constexpr std::int64_t kHeight = 7;
        constexpr std::int64_t kWidth = 9;
        constexpr std::int64_t kOut = 5;
        std::vector<std::uint8_t> images(kCount * kHeight * kWidth *
                                         static_cast<std::size_t>(channels));
        for (std::uint8_t& value : images) value = static_cast<std::uint8_t>(rng.below(256));
        const std::vector<FinishSample> samples{{0, 0, 0}, {2, 4, 1}, {-1, 6, 1}};
        const Shape out_shape =
            first ? Shape({kCount, channels, kOut, kOut}) : Shape({kCount, kOut, kOut, channels});
        const DeviceTensor in{DType::u8, Shape({kCount, kHeight, kWidth, channels}),
                              reinterpret_cast<std::byte*>(to_device(images)), nullptr};
        DeviceTensor out{dtype, out_shape, nullptr, nullptr};
        out.data = memory(out.nbytes());
        FinishOptions options;
        options.channels_first = first;
        options.mean = {123.5F, 116.25F, 103.0F, 1.0F};
        options.stddev = {58.4F, 57.1F, 57.4F, 3.0F};
        finish_images(stream, in, to_device(samples), out, options);
        std::vector<std::byte> got(out.nbytes());
        stream.view().copy({got.data(), out.data, got.size()});
        stream.view().synchronize();
        for (std::int64_t n = 0; n < kCount; ++n) {
          for (std::int64_t c = 0; c < channels; ++c) {
            for (std::int64_t y = 0; y < kOut; ++y) {
              for (std::int64_t x = 0; x < kOut; ++x) {
                const FinishSample& sample = samples[static_cast<std::size_t>(n)];
                const std::int64_t from_y =
                    std::clamp<std::int64_t>(sample.top + y, 0, kHeight - 1);
                const std::int64_t from_x = std::clamp<std::int64_t>(
                    sample.left + (sample.flip != 0 ? kOut - 1 - x : x), 0, kWidth - 1);
                const std::uint8_t value = images[static_cast<std::size_t>(
                    ((n * kHeight + from_y) * kWidth + from_x) * channels + c)];
                const auto k = static_cast<std::size_t>(c);
                const float product = static_cast<float>(value) * (1.0F / options.stddev[k]);
                const float expected =
                    rounded(product + -options.mean[k] / options.stddev[k], dtype);
                const std::int64_t at = first ? ((n * channels + c) * kOut + y) * kOut + x
                                              : ((n * kOut + y) * kOut + x) * channels + c;
                ASSERT_EQ(as_float(got, static_cast<std::size_t>(at), dtype), expected);
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(Finish, OneHot) {
  const Stream stream(shared(), "finish");
  const std::vector<std::int64_t> labels{2, 0, -1, 4, 3, INT64_MIN, INT64_MAX};
  const auto count = static_cast<std::int64_t>(labels.size());
  const DeviceTensor in{DType::i64, Shape({count}), reinterpret_cast<std::byte*>(to_device(labels)),
                        nullptr};
  DeviceTensor out{DType::bf16, Shape({count, 4}), nullptr, nullptr};
  out.data = memory(out.nbytes());
  one_hot(stream, in, out);
  std::vector<std::byte> got(out.nbytes());
  stream.view().copy({got.data(), out.data, got.size()});
  stream.view().synchronize();
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t k = 0; k < 4; ++k) {
      EXPECT_EQ(as_float(got, static_cast<std::size_t>(4 * n + k), DType::bf16),
                labels[static_cast<std::size_t>(n)] == k ? 1 : 0);
    }
  }
}

TEST_P(Finish, MismatchedTensors) {
  const Stream stream(shared(), "finish");
  const auto tensor = [](DType dtype, const Shape& shape) {
    return DeviceTensor{dtype, shape, nullptr, nullptr};
  };
  const auto code = [&](const DeviceTensor& in, const DeviceTensor& out) {
    return test::code_of([&] { finish_images(stream, in, nullptr, out); });
  };
  const auto refused = std::optional(ErrorCode::invalid_argument);
  const DeviceTensor good = tensor(DType::u8, Shape({2, 8, 8, 3}));
  EXPECT_EQ(code(good, tensor(DType::f32, Shape({2, 3, 0, 8}))), std::nullopt);
  EXPECT_EQ(code(good, tensor(DType::f64, Shape({2, 3, 8, 8}))), refused);
  EXPECT_EQ(code(good, tensor(DType::f32, Shape({1, 3, 8, 8}))), refused);
  EXPECT_EQ(code(good, tensor(DType::f32, Shape({2, 8, 8, 3}))), refused);
  EXPECT_EQ(code(tensor(DType::f32, Shape({2, 8, 8, 3})), tensor(DType::f32, Shape({2, 3, 8, 8}))),
            refused);
  EXPECT_EQ(code(tensor(DType::u8, Shape({2, 8, 8, 5})), tensor(DType::f32, Shape({2, 5, 8, 8}))),
            refused);
  EXPECT_EQ(code(tensor(DType::u8, Shape({2, 0, 8, 3})), tensor(DType::f32, Shape({2, 3, 8, 8}))),
            refused);
  EXPECT_EQ(
      test::code_of([&] {
        FinishOptions options;
        options.stddev[1] = 0;
        finish_images(stream, good, nullptr, tensor(DType::f32, Shape({2, 3, 8, 8})), options);
      }),
      refused);
  EXPECT_EQ(test::code_of([&] {
              one_hot(stream, tensor(DType::i64, Shape({3})), tensor(DType::f32, Shape({2, 4})));
            }),
            refused);
}

INSTANTIATE_TEST_SUITE_P(Devices, Finish, testing::ValuesIn(test::bed_kinds()), test::name_of_bed);

TEST(FinishFunctor, ConvertsAsTheLibraryDoes) {
  for (std::uint64_t i = 0; i < 1 << 20; ++i) {
    const auto bits = static_cast<std::uint32_t>(i < 1 << 19 ? i << 13 : mix64(i));
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    ASSERT_EQ(half_bits(value), half_from_float(value).bits) << bits;
    ASSERT_EQ(bfloat_bits(value), bfloat16_from_float(value).bits) << bits;
  }
}

}  // namespace
}  // namespace penstock
