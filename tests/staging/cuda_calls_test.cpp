// Feeds on a CUDA device over a made-up runtime, of which the k-th call of each function fails: one
// error, in time, and nothing is left behind.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "staging/clock.h"
#include "staging/cuda/device.h"
#include "staging/cuda/runtime.h"
#include "tests/staging/batches.h"
#include "tests/staging/fake_cudart.h"

namespace penstock {
namespace {

constexpr int kCalls = 50;
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kBatches = 12;

class CudaCalls : public testing::Test {
 protected:
  CudaCalls() {
    test::reset_cudart();
    test::cudart.clock = &TimeSource::real();
  }

  /// What a feed on the device ends with: an error, or nothing where all batches came and were
  /// right.
  std::optional<ErrorCode> feed() {
    return test::code_of([&] {
      const CudaServices services{
          &TimeSource::real(), [](LogLevel, std::string_view, std::string_view) { return true; }};
      const DevicePtr device = cuda::make_device(0, services);
      const Stream compute(device, "compute");
      Feed feed(range(kBatches * kRows).batch(kRows), {device}, {.slots = 2});
      for (std::int64_t k = 0; k < kBatches; ++k) {
        StagedBatch batch = feed.next(0).value();
        batch.wait(compute);
        compute.view().busy(1000);
        // The made-up device's memory is the host's, and its copies are made at once.
        const auto* values = reinterpret_cast<const std::int64_t*>(batch[0].data);
        for (std::int64_t i = 0; i < kRows; ++i) {
          if (values[i] != k * kRows + i) ADD_FAILURE() << "batch " << k << " is wrong";
        }
        batch.release(compute);
      }
      if (feed.next(0)) ADD_FAILURE() << "more than all batches";
    });
  }

  /// The same with the call failing; the device is gone behind it, with all that it had.
  std::optional<ErrorCode> feed_with(const std::string& function, int number, cudaError_t error) {
    test::reset_cudart();
    test::cudart.clock = &TimeSource::real();
    test::fail_call(function, number, error);
    const auto began = std::chrono::steady_clock::now();
    const std::optional<ErrorCode> code = feed();
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10))
        << function << " " << number;
    EXPECT_EQ(test::cudart.memory, 0) << function << " " << number;
    EXPECT_EQ(test::cudart.events, 0) << function << " " << number;
    EXPECT_EQ(test::cudart.pinned, 0) << function << " " << number;
    return code;
  }
};

TEST_F(CudaCalls, NoFailure) {
  EXPECT_EQ(feed(), std::nullopt);
  EXPECT_GT(test::calls()["cudaMemcpyAsync"], kBatches - 1);
}

TEST_F(CudaCalls, FailureOfEachCall) {
  ASSERT_EQ(feed(), std::nullopt);
  int failed = 0;
  for (const auto& [function, count] : test::calls()) {
    for (int k = 1; k <= std::min(count, kCalls); ++k) {
      const std::optional<ErrorCode> code = feed_with(function, k, cudaErrorInvalidValue);
      failed += code ? 1 : 0;
      if (code) {
        EXPECT_TRUE(code == ErrorCode::unavailable || code == ErrorCode::not_found)
            << function << " " << k << ": " << static_cast<int>(*code);
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(failed, 20);
}

TEST_F(CudaCalls, LossInEachCall) {
  ASSERT_EQ(feed(), std::nullopt);
  for (const auto& [function, count] : test::calls()) {
    for (int k = 1; k <= std::min(count, kCalls); ++k) {
      const std::optional<ErrorCode> code = feed_with(function, k, cudaErrorIllegalAddress);
      if (code) {
        EXPECT_EQ(*code, ErrorCode::device_lost) << function << " " << k;
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(CudaCalls, OutOfMemory) {
  EXPECT_EQ(feed_with("cudaMalloc", 1, cudaErrorMemoryAllocation), ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace penstock
