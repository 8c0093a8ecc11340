// What only a GPU can show: captured graphs, contexts, and a context that breaks. What every device
// must do is in device_test.cpp, area_test.cpp and finish_test.cpp.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include <penstock/feed.h>
#include <penstock/penstock.h>

#include "staging/cuda/module.h"
#include "tests/staging/batches.h"
#include "tests/staging/cuda_faults.h"

namespace penstock {
namespace {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu_ = device({DeviceKind::cuda, 0});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  DevicePtr gpu_;
};

cudaStream_t native(StreamView stream) {
  return static_cast<cudaStream_t>(stream.native());
}

/// A graph for each slot, captured in the strictest mode while the feeder and the reaper continue.
TEST_F(OnGpu, CapturedGraphs) {
  constexpr std::int64_t kRows = 1 << 14;
  const Stream compute(gpu_, "compute");
  const cudaStream_t stream = native(compute);
  std::byte* const out = gpu_->allocate(kRows * 8);
  std::map<int, cudaGraphExec_t> graphs;
  {
    Feed feed(range(64 * kRows).batch(kRows), {gpu_}, {.slots = 3});
    for (std::int64_t step = 0; step < 64; ++step) {
      std::optional<StagedBatch> batch = feed.next(0);
      ASSERT_TRUE(batch);
      const auto [graph, is_new] = graphs.try_emplace(batch->slot(), nullptr);
      if (is_new) {
        cudaGraph_t captured = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        cudaMemcpyAsync(out, (*batch)[0].data, kRows * 8, cudaMemcpyDeviceToDevice, stream);
        ASSERT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
        ASSERT_EQ(cudaGraphInstantiate(&graph->second, captured, 0), cudaSuccess);
        cudaGraphDestroy(captured);
      }
      batch->wait(compute);
      ASSERT_EQ(cudaGraphLaunch(graph->second, stream), cudaSuccess);
      batch->release(compute);
      std::vector<std::int64_t> values(kRows);
      compute.view().copy({values.data(), out, values.size() * 8});
      compute.view().synchronize();
      ASSERT_EQ(values.front(), step * kRows);
      ASSERT_EQ(values.back(), (step + 1) * kRows - 1);
    }
  }
  EXPECT_EQ(graphs.size(), 3U);
  for (const auto& [slot, graph] : graphs) cudaGraphExecDestroy(graph);
  gpu_->deallocate(out, kRows * 8);
}

TEST_F(OnGpu, ContextsOfOtherDevices) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "one GPU only";
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 12000,
                                             cudaEnableDefault, &result),
            cudaSuccess);
  const auto state = reinterpret_cast<CUresult (*)(CUdevice, unsigned*, int*)>(found);
  Feed feed(range(4096).batch(64), {gpu_, gpu_});
  for (int k = 0; k < 8; ++k) ASSERT_TRUE(feed.next(k % 2));
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    int active = 0;
    ASSERT_EQ(state(i, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, i == 0 ? 1 : 0) << "cuda:" << i;
  }
}

TEST_F(OnGpu, FullDeviceMemory) {
  const DeviceMemory memory = gpu_->memory();
  const std::uint64_t row = memory.free_bytes / 5;
  const Spec spec({{"x", DType::u8, Shape({-1, static_cast<std::int64_t>(row)})}});
  StagingArea area(gpu_, spec, 2, {.slots = 4});
  EXPECT_GE(area.slots(), 1);
  EXPECT_LT(area.slots(), 4);
  EXPECT_EQ(test::code_of([&] { StagingArea(gpu_, spec, 6, {.slots = 1}); }),
            ErrorCode::resource_exhausted);
  EXPECT_TRUE(gpu_->status().ok());
}

TEST(CudaDeathTest, BrokenContext) {
  try {
    static_cast<void>(device({DeviceKind::cuda, 0}));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::optional<ErrorCode> code;
        {
          const DevicePtr gpu = device({DeviceKind::cuda, 0});
          Feed feed(range(1 << 20).batch(64), {gpu});
          const Stream compute(gpu, "compute");
          code = test::code_of([&] {
            for (int k = 0;; ++k) {
              StagedBatch batch = feed.next(0).value();
              batch.wait(compute);
              if (k == 5) test::store_astray(native(compute));
              batch.release(compute);
            }
          });
        }  // what a lost device leaves behind can be destroyed
        std::_Exit(code == ErrorCode::device_lost ? 70 : 1);
      },
      testing::ExitedWithCode(70), "");
}

}  // namespace
}  // namespace penstock
