// The host device's own: simulated time, faults, and the checker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "staging/host/host_device.h"
#include "staging/host/host_options.h"
#include "tests/support/log_capture.h"

namespace penstock {
namespace {

constexpr std::int64_t kUs = 1'000;
constexpr std::int64_t kMs = 1'000'000;

TEST(VirtualTime, TimesOfCopiesAndWork) {
  VirtualClock clock;
  const auto device = HostDevice::make(
      {.clock = &clock, .unified = false, .bytes_per_s = 1e9, .latency_ns = 7 * kUs});
  const Stream copy(device, "copy");
  const Stream compute(device, "compute");
  const Event ready(device);
  const Event end(device);
  std::vector<std::byte> from(1'000'000);
  std::vector<std::byte> to(1'000'000);
  copy.view().copy({to.data(), from.data(), from.size()});
  copy.view().record(ready);
  compute.view().wait(ready);
  compute.view().busy(20 * kMs);
  compute.view().record(end);
  EXPECT_EQ(clock.now(), 0);
  end.view().synchronize();
  EXPECT_EQ(ready.view().completed_ns(), kMs + 7 * kUs);
  EXPECT_EQ(end.view().completed_ns(), 21 * kMs + 7 * kUs);
  EXPECT_EQ(clock.now(), 21 * kMs + 7 * kUs);
}

TEST(VirtualTime, CopiesOverOneLink) {
  VirtualClock clock;
  const auto device =
      HostDevice::make({.clock = &clock, .unified = false, .bytes_per_s = 1e9, .latency_ns = kUs});
  const Stream first(device, "first");
  const Stream second(device, "second");
  std::vector<std::byte> bytes(2'000'000);
  first.view().copy({bytes.data() + 1'000'000, bytes.data(), 500'000});
  second.view().copy({bytes.data() + 1'500'000, bytes.data(), 500'000});
  first.view().synchronize();
  EXPECT_EQ(clock.now(), 500 * kUs + kUs);
  second.view().synchronize();
  EXPECT_EQ(clock.now(), kMs + kUs);
}

TEST(VirtualTime, OrderOfTies) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    VirtualClock clock;
    const auto second = HostDevice::make({.index = 1, .clock = &clock});
    const auto first = HostDevice::make({.index = 0, .clock = &clock});
    const Stream on_second(second, "a");
    const Stream on_first(first, "b");
    const Stream also_on_first(first, "c");
    std::string order;
    const auto work = [&](char mark) {
      return HostWork{.run = [&order, mark] { order.push_back(mark); }, .takes_ns = kMs};
    };
    for (int i = 0; i < 2; ++i) {
      second->launch(on_second, work('s'));
      first->launch(also_on_first, work('c'));
      first->launch(on_first, work('b'));
    }
    on_second.view().synchronize();
    ASSERT_EQ(order, "bcsbcs");
  }
}

TEST(VirtualTime, Deadlock) {
  VirtualClock clock;
  Mutex mutex;
  Signal never;
  MutexLock lock(mutex);
  EXPECT_THROW(wait_on(clock, mutex, never), Error);
}

// Two streams of two devices hand a number to and fro, each behind the other's event.
TEST(HostDevices, EventsOfOtherDevices) {
  constexpr int kRounds = 20'000;
  const auto one = HostDevice::make({.index = 0});
  const auto other = HostDevice::make({.index = 1});
  const Stream here(one, "here");
  const Stream there(other, "there");
  const Event made(one);
  const Event copied(other);
  int number = 0;
  int seen = 0;
  for (int round = 0; round < kRounds; ++round) {
    one->launch(here, {.run = [&number, round] {  // ends about when the other one begins to wait
                  const auto end = std::chrono::steady_clock::now() +
                                   std::chrono::nanoseconds(250 * (round % 64));
                  while (std::chrono::steady_clock::now() < end) {
                  }
                  ++number;
                }});
    here.view().record(made);
    there.view().wait(made);
    other->launch(there, {.run = [&number, &seen, round] { seen += number == round + 1 ? 1 : 0; }});
    there.view().record(copied);
    here.view().wait(copied);
    there.view().synchronize();
  }
  here.view().synchronize();
  EXPECT_EQ(number, kRounds);
  EXPECT_EQ(seen, kRounds);
}

TEST(HostFaults, FailedAllocation) {
  const auto device = HostDevice::make({.memory_bytes = 1000, .faults = {.fail_allocation = 2}});
  std::byte* data = device->allocate(600);
  EXPECT_EQ(device->memory().free_bytes, 400U);
  EXPECT_THROW(static_cast<void>(device->allocate(100)), Error);
  device->deallocate(data, 600);
  EXPECT_EQ(device->memory().free_bytes, 1000U);
}

TEST(HostFaults, RefusedPinning) {
  test::LogCapture log;
  const auto device = HostDevice::make({.index = 321, .faults = {.fail_pinning = 1}});
  const auto pinned = device->pinned();
  for (int i = 0; i < 3; ++i) pinned->deallocate(pinned->allocate(64), 64);
  EXPECT_EQ(device->counters().pageable_fallbacks, 3U);
  EXPECT_EQ(log.count("host:321: pinning"), 1U);
}

TEST(HostFaults, TransientError) {
  const auto device = HostDevice::make({.faults = {.fail_record = 2}});
  const Stream stream(device, "compute");
  const Event event(device);
  stream.view().record(event);
  stream.view().synchronize();
  EXPECT_TRUE(device->status().ok());
  stream.view().record(event);
  stream.view().synchronize();
  const Status status = device->status();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(device->status().ok());
  stream.view().busy(1);
  stream.view().synchronize();
}

TEST(HostFaults, StickyError) {
  const auto device = HostDevice::make({.faults = {.fail_record = 1, .sticky = true}});
  const Stream stream(device, "compute");
  const Stream other(device, "other");
  const Event event(device);
  stream.view().record(event);
  event.view().synchronize();
  for (int i = 0; i < 2; ++i) {
    ASSERT_FALSE(device->status().ok());
    EXPECT_EQ(device->status().error().code(), ErrorCode::device_lost);
    EXPECT_THROW(device->check(), Error);
    EXPECT_THROW(other.view().busy(1), Error);
    EXPECT_THROW(static_cast<void>(device->allocate(1)), Error);
  }
}

TEST(HostFaults, HangingCopy) {
  VirtualClock clock;
  const auto device =
      HostDevice::make({.clock = &clock, .unified = false, .faults = {.hang_copy = 2}});
  const Event first(device);
  const Event second(device);
  std::byte a{1};
  std::byte b{2};
  {
    const Stream compute(device, "compute");
    const Stream copy(device, "copy");
    copy.view().copy({&b, &a, 1});
    copy.view().record(first);
    copy.view().copy({&b, &a, 1});
    copy.view().record(second);
    compute.view().wait(second);
    clock.sleep_until(1000 * kMs);
    EXPECT_TRUE(first.view().done());
    EXPECT_FALSE(second.view().done());
  }  // the streams can be destroyed all the same
}

TEST(HostOptions, AreReadFromText) {
  const HostOptions options = parse_host_options(
      "host:3:bytes_per_s=1.5e9:latency_us=20:memory=4096:fail_allocation=1:fail_pinning=2:"
      "fail_record=3:sticky:hang_copy=4:check");
  EXPECT_EQ(options.index, 3);
  EXPECT_FALSE(options.unified);
  EXPECT_EQ(options.bytes_per_s, 1.5e9);
  EXPECT_EQ(options.latency_ns, 20'000);
  EXPECT_EQ(options.memory_bytes, 4096U);
  EXPECT_TRUE(options.check);
  EXPECT_EQ(options.faults.fail_allocation, 1U);
  EXPECT_EQ(options.faults.fail_pinning, 2U);
  EXPECT_EQ(options.faults.fail_record, 3U);
  EXPECT_TRUE(options.faults.sticky);
  EXPECT_EQ(options.faults.hang_copy, 4U);
  EXPECT_TRUE(parse_host_options("host:0:fail_pinning=1").unified);
  EXPECT_FALSE(parse_host_options("host:0:copies").unified);
  for (const char* wrong : {"host:0:", "host:0:speed=1", "host:0:copies=1", "host:0:memory",
                            "host:0:memory=", "host:0:memory=-1", "host:0:memory=1x",
                            "host:0:memory=inf", "host:0:memory=nan", "host:0:memory=1e300",
                            "host:x:copies", "host:0:copies:", "host::copies"}) {
    EXPECT_THROW(parse_host_options(wrong), Error) << wrong;
  }
  EXPECT_FALSE(is_host_with_options("host:0"));
  EXPECT_FALSE(is_host_with_options("cuda:0:copies"));
}

/// Two streams and a region, checked.
struct Checked {
  std::shared_ptr<HostDevice> device = HostDevice::make({.unified = false, .check = true});
  Stream copy{device, "copy"};
  Stream compute{device, "compute"};
  Event ready{device};
  Event released{device};
  std::vector<std::byte> host = std::vector<std::byte>(4096);
  std::byte* slot = device->allocate(4096);

  std::span<const std::byte> memory() const { return {slot, 4096}; }
  void put() {
    copy.view().copy({slot, host.data(), 4096});
    copy.view().record(ready);
  }
  void use() {
    device->launch(compute, {.run = [] {}, .reads = {memory()}});
  }
  void finish() {
    copy.view().synchronize();
    compute.view().synchronize();
  }
};

TEST(Checker, IsSilentWhereEverythingIsOrdered) {
  Checked on;
  for (int i = 0; i < 5; ++i) {
    on.copy.view().wait(on.released);
    on.put();
    on.compute.view().wait(on.ready);
    on.use();
    on.compute.view().record(on.released);
  }
  on.finish();
  on.device->deallocate(on.slot, 4096);
  EXPECT_THAT(on.device->hazards(), testing::IsEmpty());
}

TEST(Checker, FindsAReadThatDoesNotWait) {
  Checked on;
  on.put();
  on.copy.view().synchronize();  // by luck it was ready; and yet nothing says so to the stream
  std::thread([&] { on.use(); }).join();
  on.finish();
  ASSERT_EQ(on.device->hazards().size(), 1U);
  const Hazard hazard = on.device->hazards()[0];
  EXPECT_EQ(hazard.kind, Hazard::Kind::read_before_ready);
  EXPECT_THAT(
      hazard.to_string(),
      testing::MatchesRegex(
          "read before its ready event: read by stream compute \\(host_device_test.cpp:[0-9]+\\), "
          "written by stream copy \\(host_device_test.cpp:[0-9]+\\)"));
  EXPECT_NE(hazard.earlier.line, hazard.later.line);
  on.device->deallocate(on.slot, 4096);
}

TEST(Checker, FindsASlotThatIsOverwrittenWhileInUse) {
  Checked on;
  on.put();
  on.compute.view().wait(on.ready);
  on.use();
  on.put();
  on.finish();
  ASSERT_EQ(on.device->hazards().size(), 1U);
  EXPECT_EQ(on.device->hazards()[0].kind, Hazard::Kind::overwritten_in_use);
  on.device->deallocate(on.slot, 4096);
}

TEST(Checker, FindsMemoryThatIsFreedInFlight) {
  Checked on;
  on.put();
  on.compute.view().wait(on.ready);
  on.use();
  on.copy.view().synchronize();
  on.device->deallocate(on.slot, 4096);
  ASSERT_EQ(on.device->hazards().size(), 1U);
  EXPECT_EQ(on.device->hazards()[0].kind, Hazard::Kind::freed_in_flight);
  on.compute.view().synchronize();
}

TEST(Checker, HandOversBetweenThreads) {
  for (const bool handed : {false, true}) {
    Checked on;
    std::thread([&] {
      on.put();
      on.copy.view().synchronize();
      on.device->hand_over(&on);
    }).join();
    std::thread([&] {
      if (handed) on.device->take_over(&on);
      on.device->host_access(on.host, true);
    }).join();
    EXPECT_EQ(on.device->hazards().size(), handed ? 0U : 1U);
    on.device->deallocate(on.slot, 4096);
  }
}

TEST(CheckerDeathTest, GuardedMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Checked on;
        on.device->guard({on.slot, 4096}, false, on.copy.view().state());
        on.copy.view().synchronize();
        std::memset(on.slot, 1, 1);
      },
      "");
}

}  // namespace
}  // namespace penstock
