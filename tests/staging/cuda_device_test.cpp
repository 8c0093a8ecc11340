// The CUDA module's device over a runtime that is made up: what goes wrong on a GPU, where none is.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <penstock/device.h>
#include <penstock/device_backend.h>

#include "staging/clock.h"
#include "staging/cuda/device.h"
#include "staging/cuda/kernels.h"
#include "staging/cuda/pinned.h"
#include "staging/cuda/runtime.h"
#include "tests/staging/fake_cudart.h"

extern "C" const penstock::CudaModule* penstock_cuda_module();

namespace penstock::cuda {
namespace {

test::Cudart& runtime = test::cudart;

class CudaDeviceOverFakes : public testing::Test {
 protected:
  CudaDeviceOverFakes() {
    test::reset_cudart();
    runtime.clock = &clock_;
  }
  DevicePtr make(int index = 0) { return make_device(index, services_); }

  VirtualClock clock_;
  const CudaServices services_{&clock_,
                               [](LogLevel, std::string_view, std::string_view) { return true; }};
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

TEST_F(CudaDeviceOverFakes, PinnedMemory) {
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

TEST_F(CudaDeviceOverFakes, ClockOfEvents) {
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

TEST_F(CudaDeviceOverFakes, RepeatedPeerAccess) {
  const DevicePtr device = make(0);
  const DevicePtr peer = make(1);
  device->enable_peer(*device);
  EXPECT_EQ(runtime.peers, 0);
  device->enable_peer(*peer);
  device->enable_peer(*peer);
  EXPECT_EQ(runtime.peers, 2);
  EXPECT_TRUE(device->status().ok());
}

/// What is thrown is not told again by status(), unless the device is lost.
TEST_F(CudaDeviceOverFakes, ThrownError) {
  const DevicePtr device = make();
  const Stream stream(device, "stream");
  const Event event(device);
  const auto record = [&](cudaError_t error) -> std::optional<ErrorCode> {
    runtime.broken = error;
    std::optional<ErrorCode> code;
    try {
      stream.view().record(event);
    } catch (const Error& thrown) {
      code = thrown.code();
    }
    runtime.broken = cudaSuccess;
    return code;
  };
  EXPECT_EQ(record(cudaErrorInvalidValue), ErrorCode::unavailable);
  EXPECT_TRUE(device->status().ok());
  EXPECT_EQ(record(cudaErrorIllegalAddress), ErrorCode::device_lost);
  EXPECT_EQ(device->status().error().code(), ErrorCode::device_lost);
  EXPECT_EQ(device->status().error().code(), ErrorCode::device_lost);
}

/// One that hangs keeps neither another one, nor a kick, nor a loss from ending the wait.
TEST_F(CudaDeviceOverFakes, HangingEvent) {
  const CudaServices services{&TimeSource::real(),
                              [](LogLevel, std::string_view, std::string_view) { return true; }};
  runtime.clock = &TimeSource::real();
  const DevicePtr device = make_device(0, services);
  const Event hanging(device);
  CUevent_st& first = *runtime.newest_event;
  const Event other(device);
  CUevent_st& second = *runtime.newest_event;
  first.hangs = second.hangs = true;
  const std::vector<EventView> events{hanging, other};
  Kick flag;
  {
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      second.hangs = false;
    });
    device->backend().wait_any(events, flag);
    EXPECT_TRUE(first.hangs);
  }
  second.hangs = true;
  {
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      device->backend().kick(flag);
    });
    device->backend().wait_any(events, flag);
    EXPECT_FALSE(flag.raised);
  }
}

TEST_F(CudaDeviceOverFakes, SaysWhichPartOfCudaIsMissing) {
  const auto said = []() -> std::string {
    try {
      return std::to_string(penstock_cuda_module()->count());
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto expect = [&](int driver, int devices, cudaError_t error, const std::string& text) {
    runtime.driver = driver;
    runtime.devices = devices;
    runtime.counting = error;
    EXPECT_NE(said().find(text), std::string::npos) << said();
  };
  expect(13000, 2, cudaSuccess, "2");
  expect(0, 0, cudaErrorInsufficientDriver, "no NVIDIA driver is loaded");
  expect(12040, 0, cudaErrorInsufficientDriver,
         "the driver knows CUDA 12.4, and CUDA 13.0 is needed");
  expect(13000, 0, cudaErrorNoDevice, "the driver shows no device");
  expect(13000, 0, cudaErrorUnknown, "no CUDA here: an error (cudaError)");
}

}  // namespace
}  // namespace penstock::cuda
