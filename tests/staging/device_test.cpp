// What every device must do, whichever it is; and how devices are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "tests/staging/beds.h"
#include "tests/staging/gate.h"

namespace penstock {
namespace {

using test::Gate;
using test::OnEachDevice;
constexpr std::int64_t kMs = 1'000'000;

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 7 + 3);
  return result;
}

/// Device memory for a scope.
struct Region {
  Region(Device& of, std::size_t size) : device(of), bytes(size), data(of.allocate(size)) {}
  ~Region() { device.deallocate(data, bytes); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  Device& device;
  std::size_t bytes;
  std::byte* data;
};

class DeviceConformance : public OnEachDevice {};

TEST_P(DeviceConformance, CopiesThereAndBack) {
  const Stream stream(shared(), "copy");
  for (const std::size_t bytes : {0UL, 1UL, 63UL, 64UL, 65UL, 1UL << 20}) {
    SCOPED_TRACE(bytes);
    Region region(device(), bytes + 1);
    const std::vector<std::byte> in = pattern(bytes);
    std::vector<std::byte> out(bytes);
    stream.view().copy({region.data, in.data(), bytes});
    stream.view().copy({out.data(), region.data, bytes});
    stream.view().synchronize();
    EXPECT_EQ(in, out);
  }
}

TEST_P(DeviceConformance, OrderOfAStream) {
  const Stream stream(shared(), "copy");
  Region region(device(), 64);
  const std::vector<std::byte> in = pattern(64);
  std::vector<std::byte> out(64);
  stream.view().copy({region.data, in.data(), 64});
  stream.view().clear({region.data + 8, 8});
  stream.view().copy({out.data(), region.data, 64});
  stream.view().synchronize();
  std::vector<std::byte> expected = in;
  std::fill_n(expected.begin() + 8, 8, std::byte{0});
  EXPECT_EQ(out, expected);
}

TEST_P(DeviceConformance, UnrecordedEvent) {
  const Stream stream(shared(), "compute");
  const Event event(shared());
  EXPECT_TRUE(event.view().done());
  event.view().synchronize();
  stream.view().wait(event);
  stream.view().synchronize();
}

TEST_P(DeviceConformance, EventBehindWork) {
  const Stream stream(shared(), "compute");
  const Event first(shared());
  const Event second(shared());
  stream.view().record(first);
  stream.view().busy(30 * kMs);
  Gate gate;
  gate.hold(device(), stream, 30 * kMs);
  stream.view().record(second);
  EXPECT_FALSE(second.view().done());
  gate.open();
  second.view().synchronize();
  EXPECT_TRUE(first.view().done());
  EXPECT_TRUE(second.view().done());
  EXPECT_GE(second.view().completed_ns() - first.view().completed_ns(), 29 * kMs);
}

TEST_P(DeviceConformance, AsynchronousCalls) {
  const Stream stream(shared(), "compute");
  const Event event(shared());
  Gate gate;
  gate.hold(device(), stream, 300 * kMs);
  stream.view().busy(30 * kMs);
  stream.view().record(event);
  EXPECT_FALSE(event.view().done());
  const std::int64_t begin = device().now();
  gate.open();
  event.view().synchronize();
  EXPECT_GE(device().now() - begin, 29 * kMs);
}

TEST_P(DeviceConformance, EventOfAnotherStream) {
  const Stream copy(shared(), "copy");
  const Stream compute(shared(), "compute");
  const Event ready(shared());
  const Event passed(shared());
  Region region(device(), 4096);
  const std::vector<std::byte> in = pattern(4096);
  std::vector<std::byte> out(4096);
  copy.view().busy(20 * kMs);
  copy.view().copy({region.data, in.data(), in.size()});
  copy.view().record(ready);
  compute.view().wait(ready);
  compute.view().copy({out.data(), region.data, out.size()});
  compute.view().record(passed);
  passed.view().synchronize();
  EXPECT_EQ(in, out);
  EXPECT_GE(passed.view().completed_ns(), ready.view().completed_ns());
}

TEST_P(DeviceConformance, WaitForTheLastRecord) {
  const Stream copy(shared(), "copy");
  const Stream compute(shared(), "compute");
  const Event event(shared());
  const Event passed(shared());
  const Event end(shared());
  copy.view().record(event);
  compute.view().wait(event);
  Gate gate;
  gate.hold(device(), copy, 200 * kMs);
  copy.view().record(event);  // does not concern the wait above
  copy.view().record(end);
  compute.view().record(passed);
  passed.view().synchronize();
  EXPECT_FALSE(end.view().done());
  EXPECT_FALSE(event.view().done());
  gate.open();
  event.view().synchronize();
  EXPECT_TRUE(event.view().done());
}

TEST_P(DeviceConformance, DestroyedStream) {
  Region region(device(), 256);
  const std::vector<std::byte> in = pattern(256);
  std::vector<std::byte> out(256);
  {
    const Stream stream(shared(), "copy");
    stream.view().busy(5 * kMs);
    stream.view().copy({region.data, in.data(), 256});
    stream.view().copy({out.data(), region.data, 256});
    const Event pending(shared());  // goes while its record waits its turn
    stream.view().record(pending);
  }
  const Stream later(shared(), "later");
  later.view().busy(50 * kMs);
  later.view().synchronize();
  EXPECT_EQ(in, out);
}

TEST_P(DeviceConformance, WaitForAnyEventOrAKick) {
  const Stream fast(shared(), "fast");
  const Stream slow(shared(), "slow");
  const Event first(shared());
  const Event second(shared());
  Kick kick;
  fast.view().busy(5 * kMs);
  fast.view().record(first);
  Gate gate;
  gate.hold(device(), slow, 100 * kMs);
  slow.view().record(second);
  const std::vector<EventView> events{first.view(), second.view()};
  device().backend().wait_any(events, kick);
  EXPECT_TRUE(first.view().done());
  EXPECT_FALSE(second.view().done());
  device().backend().kick(kick);
  const std::vector<EventView> rest{second.view()};
  device().backend().wait_any(rest, kick);
  EXPECT_FALSE(kick.raised);
  gate.open();
  device().backend().wait_any(rest, kick);
  EXPECT_TRUE(second.view().done());
}

TEST_P(DeviceConformance, OutOfMemory) {
  const std::size_t far_too_much = 1UL << 60;
  try {
    static_cast<void>(device().allocate(far_too_much));
    FAIL() << "allocated 2^60 bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_THAT(error.cause(), testing::HasSubstr(device().id().to_string()));
    EXPECT_THAT(error.cause(), testing::HasSubstr(std::to_string(far_too_much)));
    EXPECT_THAT(error.cause(), testing::HasSubstr("free"));
  }
  EXPECT_TRUE(device().status().ok());
  Region region(device(), 1);
  const Stream stream(shared(), "copy");
  stream.view().clear({region.data, 1});
  stream.view().synchronize();
}

TEST_P(DeviceConformance, CountAndAlignmentOfMemory) {
  const DeviceMemory before = device().memory();
  EXPECT_GT(before.total_bytes, 0U);
  EXPECT_LE(before.free_bytes, before.total_bytes);
  const std::uint64_t allocations = device().counters().allocations;
  Region region(device(), 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data) % 256, 0U);
  EXPECT_EQ(device().counters().allocations, allocations + 1);
}

TEST_P(DeviceConformance, LifetimeOfPinnedMemory) {
  const std::shared_ptr<Allocator> pinned = device().pinned();
  std::byte* data = pinned->allocate(4096);
  std::memset(data, 1, 4096);
  bed_ = {};
  std::memset(data, 2, 4096);
  pinned->deallocate(data, 4096);
}

TEST_P(DeviceConformance, NumberOfHostWaits) {
  const Stream stream(shared(), "copy");
  const Event event(shared());
  Kick kick;
  const std::uint64_t before = device().counters().host_waits;
  stream.view().record(event);
  const std::vector<EventView> events{event.view()};
  device().backend().wait_any(events, kick);
  EXPECT_EQ(device().counters().host_waits, before);
  event.view().synchronize();
  stream.view().synchronize();
  EXPECT_EQ(device().counters().host_waits, before + 2);
}

TEST_P(DeviceConformance, WrappedStream) {
  EXPECT_THROW(static_cast<void>(Stream::wrap(shared(), nullptr)), Error);
  const Stream own(shared(), "own");
  if (own.view().native() == nullptr) return;
  const Stream wrapped = Stream::wrap(shared(), own.view().native());
  const Event first(shared());
  const Event second(shared());
  own.view().record(first);
  own.view().busy(20 * kMs);
  wrapped.view().record(second);
  second.view().synchronize();
  EXPECT_GE(second.view().completed_ns() - first.view().completed_ns(), 19 * kMs);
}

TEST_P(DeviceConformance, LifetimeOfStates) {
  Event event(shared());
  Event other_event(shared());
  static_cast<void>(Event(std::move(other_event)));
  Stream stream(shared(), "first");
  Stream other_stream(shared(), "second");
  static_cast<void>(Stream(std::move(other_stream)));
  const std::weak_ptr<Device> device = shared();
  bed_.device.reset();
  stream = std::move(other_stream);
  EXPECT_FALSE(device.expired());
  event = std::move(other_event);  // this was the last that held the device
  EXPECT_TRUE(device.expired());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance, testing::ValuesIn(test::bed_kinds()),
                         test::name_of_bed);

TEST(DeviceId, IsReadAndWritten) {
  for (const char* text : {"host:0", "host:1", "cuda:0", "cuda:1023"}) {
    EXPECT_EQ(DeviceId::parse(text).to_string(), text);
  }
  EXPECT_EQ((DeviceId{DeviceKind::other, 2}).to_string(), "other:2");
  for (const char* text : {"", "host", "host:", "host:-1", "cuda:1024", "cuda:0 ", "gpu:0",
                           "other:0", "host:x", "cuda:99999999999999999999", "cuda:0x1"}) {
    EXPECT_THROW(DeviceId::parse(text), Error) << text;
  }
}

TEST(Devices, CudaOrTheMissingPart) {
  try {
    const DevicePtr cuda = device({DeviceKind::cuda, 0});
    EXPECT_EQ(cuda->id().to_string(), "cuda:0");
    EXPECT_FALSE(devices("cuda:*").empty());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.cause(), testing::HasSubstr("no CUDA here: "));
    EXPECT_THROW(devices("host:0,cuda:*"), Error);
  }
}

TEST(Devices, AreSharedAndMayBeNamedTwice) {
  const std::vector<DevicePtr> list = devices("host:0,host:1,host:0");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0], list[2]);
  EXPECT_NE(list[0], list[1]);
  EXPECT_EQ(list[1]->id().to_string(), "host:1");
  EXPECT_THROW(devices(""), Error);
  EXPECT_THROW(devices("host:0,"), Error);
}

}  // namespace
}  // namespace penstock
