// The CUDA module's device over a runtime that is made up: what goes wrong on a GPU, where none is.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include <penstock/device.h>

#include "staging/clock.h"
#include "staging/cuda/device.h"
#include "staging/cuda/kernels.h"
#include "staging/cuda/pinned.h"
#include "staging/cuda/runtime.h"

namespace {

/// What the runtime does.
struct Runtime {
  cudaError_t broken = cudaSuccess;  // what the driver says to whoever asks it for something
  bool pins = true;
  int pinned = 0;  // and not freed
  int peers = 0;   // calls that enable one
  penstock::TimeSource* clock = nullptr;
  double rate = 1;  // of the device's clock
};
Runtime runtime;

double device_ns() {
  return static_cast<double>(runtime.clock->now()) * runtime.rate;
}
CUresult no_push(CUcontext) {
  return CUDA_SUCCESS;
}
CUresult no_context(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}
CUresult no_device(CUdevice* device, int) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult no_retain(CUcontext* context, CUdevice) {
  return no_context(context);
}

}  // namespace

struct CUevent_st {
  double at_ns = 0;
};

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  const std::string asked = name;
  *found = asked == "cuCtxPushCurrent"           ? reinterpret_cast<void*>(&no_push)
           : asked == "cuCtxPopCurrent"          ? reinterpret_cast<void*>(&no_context)
           : asked == "cuDevicePrimaryCtxRetain" ? reinterpret_cast<void*>(&no_retain)
                                                 : reinterpret_cast<void*>(&no_device);
  return cudaSuccess;
}
// Another runtime's errors don't show here.
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaError";
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return runtime.broken;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(&runtime);
  return runtime.broken;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return runtime.broken;
}
cudaError_t cudaStreamQuery(cudaStream_t) {
  return runtime.broken;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return runtime.broken;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return runtime.broken;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return runtime.broken;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return runtime.broken;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->at_ns = device_ns();
  return runtime.broken;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return runtime.broken;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return runtime.broken;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = static_cast<float>((to->at_ns - from->at_ns) / 1e6);
  return runtime.broken;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  return runtime.broken;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = -1;
  return runtime.broken;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = 1 << 20;
  return runtime.broken;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return runtime.broken;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return runtime.broken;
}
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
  return runtime.broken;
}
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t) {
  return runtime.broken;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  if (!runtime.pins) return cudaErrorMemoryAllocation;
  *data = std::malloc(bytes);
  ++runtime.pinned;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  --runtime.pinned;
  return runtime.broken;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return runtime.broken;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return ++runtime.peers > 1 ? cudaErrorPeerAccessAlreadyEnabled : runtime.broken;
}

namespace penstock::cuda {

cudaError_t load_kernels() {
  return cudaSuccess;
}
cudaError_t busy(std::int64_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t finish(const FinishPlan&, std::int64_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t reconstruct_batch(const reconstruct::Batch&, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t one_hot(const OneHotPlan&, std::int64_t, cudaStream_t) {
  return cudaSuccess;
}

namespace {

class CudaDeviceOverFakes : public testing::Test {
 protected:
  CudaDeviceOverFakes() {
    runtime = {};
    runtime.clock = &clock_;
  }
  DevicePtr make(int index = 0) { return make_device(index, services_); }

  VirtualClock clock_;
  const CudaServices services_{&clock_, [](LogLevel, std::string_view, std::string_view) {}};
};

TEST_F(CudaDeviceOverFakes, IsLostWhateverRuntimeSawItFirst) {
  for (const int error : {226, 700, 719, 721, 810}) {
    const DevicePtr device = make();
    EXPECT_TRUE(device->status().ok());
    runtime.broken = static_cast<cudaError_t>(error);
    const Status status = device->status();
    runtime.broken = cudaSuccess;
    ASSERT_FALSE(status.ok()) << error;
    EXPECT_EQ(status.error().code(), ErrorCode::device_lost) << error;
  }
  const DevicePtr device = make();
  runtime.broken = cudaErrorInvalidValue;
  EXPECT_EQ(device->status().error().code(), ErrorCode::unavailable);
  runtime.broken = cudaSuccess;
}

TEST_F(CudaDeviceOverFakes, PinnedMemoryGoesBackWhereItCameFrom) {
  const std::shared_ptr<Allocator> pinned = make()->pinned();
  std::byte* const before = pinned->allocate(100);
  runtime.pins = false;
  std::byte* const pageable = pinned->allocate(100);
  std::byte* const other = pinned->allocate(200);
  runtime.pins = true;
  std::byte* const behind = pinned->allocate(100);
  EXPECT_EQ(runtime.pinned, 2);
  pinned->deallocate(pageable, 100);
  EXPECT_EQ(runtime.pinned, 2);
  runtime.broken = cudaErrorLaunchFailure;
  pinned->deallocate(before, 100);
  pinned->deallocate(other, 200);
  pinned->deallocate(behind, 100);
  EXPECT_EQ(runtime.pinned, 0);
  runtime.broken = cudaSuccess;
}

TEST_F(CudaDeviceOverFakes, EventsStayOnTheHostsClock) {
  constexpr double kDrift = 1e-3;
  constexpr std::int64_t kSecond = 1'000'000'000;
  runtime.rate = 1 + kDrift;
  const DevicePtr device = make();
  const Stream stream(device, "stream");
  for (int i = 0; i < 60; ++i) {
    clock_.sleep_until(clock_.now() + kSecond);
    const Event event(device);
    stream.view().record(event);
    EXPECT_NEAR(static_cast<double>(event.view().completed_ns()), static_cast<double>(clock_.now()),
                6 * kDrift * kSecond)
        << "after " << i << " s";
  }
}

TEST_F(CudaDeviceOverFakes, PeersAreEnabledOnceAndAgain) {
  const DevicePtr device = make(0);
  const DevicePtr peer = make(1);
  device->enable_peer(*device);
  EXPECT_EQ(runtime.peers, 0);
  device->enable_peer(*peer);
  device->enable_peer(*peer);
  EXPECT_EQ(runtime.peers, 2);
  EXPECT_TRUE(device->status().ok());
}

}  // namespace
}  // namespace penstock::cuda
