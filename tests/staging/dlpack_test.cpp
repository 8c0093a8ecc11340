// Tensors that go out and come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include <penstock/dlpack.h>
#include <penstock/staging_area.h>

#include "staging/host/host_device.h"
#include "tests/staging/batches.h"

namespace penstock {
namespace {

using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

static_assert(sizeof(dlpack::DLTensor) == 48);
static_assert(offsetof(dlpack::DLTensor, shape) == 24);
static_assert(offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

TEST(Dlpack, EveryType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(name_of(dtype));
    if (dtype == DType::bytes) {
      EXPECT_EQ(test::code_of([] { to_dlpack(Tensor::copy_bytes("x")); }),
                ErrorCode::invalid_argument);
      continue;
    }
    Tensor tensor = Tensor::allocate(dtype, Shape({5, 7}));
    for (std::size_t b = 0; b < tensor.nbytes(); ++b)
      tensor.mutable_data()[b] = static_cast<std::byte>(b % 2);
    const Tensor one = from_dlpack(to_dlpack(tensor));
    const Tensor two = from_dlpack(to_dlpack_versioned(tensor));
    for (const Tensor& back : {one, two}) {
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), tensor.shape());
      EXPECT_EQ(std::memcmp(back.data(), tensor.data(), tensor.nbytes()), 0);
    }
    if (tensor.owner()) {
      EXPECT_EQ(one.data(), tensor.data());  // not copied
    }
  }
}

TEST(Dlpack, StridedAndEmptyTensors) {
  const Tensor matrix = Tensor::of<std::int32_t>(
      Shape({2, 10}), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  const Tensor column = matrix.slice(1, 1, 8, 3);
  EXPECT_EQ(from_dlpack(to_dlpack(column)).to_vector<std::int32_t>(),
            column.to_vector<std::int32_t>());
  EXPECT_EQ(from_dlpack(to_dlpack(Tensor::allocate(DType::f32, Shape({0, 3})))).shape(),
            Shape({0, 3}));
  EXPECT_EQ(from_dlpack(to_dlpack(Tensor::scalar(4.5))).item<double>(), 4.5);
}

TEST(Dlpack, LifetimeOfMemory) {
  std::optional<Tensor> tensor = Tensor::allocate(DType::f32, Shape({100}));
  const BufferPtr buffer = tensor->owner();
  DLManagedTensorVersioned* out = to_dlpack_versioned(*tensor);
  EXPECT_EQ(out->flags & dlpack::kReadOnly, dlpack::kReadOnly);
  tensor.reset();
  EXPECT_FALSE(buffer->unique());
  std::optional<Tensor> back = from_dlpack(out);
  Tensor part = (*back)[3];
  back.reset();
  EXPECT_FALSE(buffer->unique());
  part = Tensor();
  EXPECT_TRUE(buffer->unique());
}

TEST(Dlpack, InvalidTensors) {
  static int deleted = 0;
  std::int64_t dims[] = {2, 3};
  const auto code = [&](const std::function<void(DLManagedTensorVersioned&)>& spoil) {
    static float values[6];
    DLManagedTensorVersioned managed{};
    managed.version = {1, 0};
    managed.dl_tensor = {values, {dlpack::kCpu, 0}, 2, {dlpack::kFloat, 32, 1}, dims, nullptr, 0};
    managed.deleter = [](DLManagedTensorVersioned*) { ++deleted; };
    spoil(managed);
    return test::code_of([&] { from_dlpack(&managed); });
  };
  const auto refused = std::optional(ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto&) {}), std::nullopt);
  EXPECT_EQ(code([](auto& m) { m.version.major = 2; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.device.device_type = dlpack::kCuda; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.ndim = -1; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.ndim = 100; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.shape = nullptr; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.data = nullptr; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.dtype.lanes = 4; }), refused);
  EXPECT_EQ(code([](auto& m) { m.dl_tensor.dtype.code = 5; }), refused);
  EXPECT_EQ(code([&](auto& m) {
              static std::int64_t negative[] = {2, -3};
              m.dl_tensor.shape = negative;
            }),
            refused);
  EXPECT_EQ(code([&](auto& m) {
              static std::int64_t huge[] = {INT64_MAX / 2, 3};
              m.dl_tensor.shape = huge;
            }),
            ErrorCode::out_of_range);
  EXPECT_EQ(code([&](auto& m) {
              static std::int64_t large[] = {INT64_MAX / 4, 1};
              m.dl_tensor.shape = large;
              m.dl_tensor.dtype.bits = 64;
            }),
            refused);
  EXPECT_EQ(deleted, 12);
}

TEST(Dlpack, LeaseOfAllComponents) {
  const auto device = HostDevice::make({.unified = false, .check = true});
  const Stream compute(device, "compute");
  StagingArea area(device, test::numbers_spec(), 4, {.slots = 1});
  area.put(test::numbers(10, 4));
  DLManagedTensor* x = nullptr;
  DLManagedTensorVersioned* y = nullptr;
  {
    const ExportedBatch batch(*area.get(), compute);
    x = batch.tensor("x");
    y = batch.versioned("y");
    EXPECT_EQ(test::code_of([&] { static_cast<void>(batch.tensor("z")); }), ErrorCode::not_found);
  }
  compute.view().synchronize();
  EXPECT_EQ(x->dl_tensor.device.device_type, dlpack::kCpu);
  EXPECT_EQ(x->dl_tensor.ndim, 1);
  EXPECT_EQ(y->dl_tensor.ndim, 2);
  EXPECT_EQ(y->dl_tensor.shape[1], 3);
  EXPECT_EQ(static_cast<std::int64_t*>(x->dl_tensor.data)[3], 13);
  std::thread([&] { x->deleter(x); }).join();
  // The slot is still in use, so that the next batch has to wait.
  std::atomic<bool> came{false};
  std::thread producer([&] {
    area.put(test::numbers(20, 4));
    came = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(came);
  EXPECT_EQ(static_cast<float*>(y->dl_tensor.data)[0], 5.0F);
  std::thread([&] { y->deleter(y); }).join();
  producer.join();
  EXPECT_EQ(area.get()->sequence(), 1U);
  EXPECT_TRUE(device->hazards().empty());
}

}  // namespace
}  // namespace penstock
