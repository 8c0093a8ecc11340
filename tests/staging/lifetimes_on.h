// Streams that end before the leases that wait for them, on devices of each kind. A program that
// includes this defines `hold`, and says on which devices the tests run.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/dlpack.h>
#include <penstock/staging_area.h>

#include "tests/staging/area_on.h"

namespace penstock::test {

/// Holds later work of the stream up until the result is called. Where a device can't, it is busy
/// for a while instead.
std::function<void()> hold(Device& device, StreamView stream);

class LifetimesOn : public StagingAreaOn {
 protected:
  /// Destroys in this order: s, the stream; a, the area; d, the device's handle; and l, the lease,
  /// or e, the exported batch, and t, its last tensor.
  void destroy_in(const std::string& order, bool pending);
  /// Makes a bed without an older one beside it: a thread has one simulated clock.
  void renew() {
    bed_.device.reset();
    bed_.clock.reset();
    bed_ = GetParam().make();
  }
  std::string has_ended(const std::string& name) {
    return device().id().to_string() + ": the stream \"" + name + "\" has ended";
  }
  /// The area's next batch comes, and is right. All that the earlier one's stream did came first.
  void expect_next(StagingArea& area, const DevicePtr& device, std::int64_t first) {
    const Stream later(device, "later");
    std::optional<StagedBatch> batch = area.get();
    ASSERT_TRUE(batch);
    batch->wait(later);
    expect_numbers(*batch, later, first, 4);
  }
};

inline void LifetimesOn::destroy_in(const std::string& order, bool pending) {
  renew();
  const std::weak_ptr<Device> device = shared();
  TimeSource& time = shared()->backend().time();
  const bool joins = shared()->id().kind != DeviceKind::cuda;  // a stream's end waits for its work
  std::vector<std::int64_t> read(4);
  std::function<void()> open = [] {};
  std::vector<std::jthread> openers;
  std::optional<Stream> stream(std::in_place, shared(), "consumer");
  std::optional<StagingArea> area(std::in_place, shared(), numbers_spec(), 4,
                                  StagingOptions{.slots = 1, .ahead = 1});
  area->put(numbers(0, 4));
  std::optional<StagedBatch> lease = area->get();
  const DeviceTensor x = (*lease)["x"];
  std::optional<ExportedBatch> exported;
  dlpack::DLManagedTensor* tensor = nullptr;
  if (order.find('l') == std::string::npos) {
    exported.emplace(*std::move(lease), *stream);
    lease.reset();
    tensor = exported->tensor("x");
    dlpack::DLManagedTensorVersioned* y = exported->versioned("y");
    y->deleter(y);
  } else {
    lease->wait(*stream);
  }
  if (pending) open = hold(*shared(), *stream);
  stream->view().copy({read.data(), x.data, read.size() * sizeof(read[0])});
  if (!pending) stream->view().synchronize();
  for (const char step : order) {
    const int holders = (lease ? 1 : 0) + (exported ? 1 : 0) + (tensor != nullptr ? 1 : 0);
    // Some steps wait for the work.
    const bool frees = step != 's' && step != 'd' && !area && holders == 1;
    if ((step == 's' && joins) || frees) openers.emplace_back(open);
    switch (step) {
      case 's':
        stream.reset();
        break;
      case 'l':
        lease.reset();
        break;
      case 'e':
        exported.reset();
        break;
      case 't':
        time.start({0, 1 << 10}, [tensor] { tensor->deleter(tensor); }).reset();
        tensor = nullptr;
        break;
      case 'a':
        if (holders == 0) {
          // Batches in place wait for the work on the host.
          if (area->device().unified()) openers.emplace_back(open);
          area->put(numbers(100, 4));
          open();
          expect_next(*area, area->device().shared_from_this(), 100);
        }
        area.reset();
        break;
      case 'd':
        if (auto* host = dynamic_cast<HostDevice*>(&this->device())) {
          EXPECT_THAT(host->hazards(), testing::IsEmpty());
        }
        bed_.device.reset();
        break;
      default:
        FAIL() << step;
    }
  }
  EXPECT_EQ(read, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(device.expired());
}

TEST_P(LifetimesOn, LeaseAndItsStream) {
  for (const bool pending : {false, true}) {
    std::string order = "adls";
    do {
      SCOPED_TRACE(order + (pending ? ", pending" : ""));
      destroy_in(order, pending);
    } while (!HasFailure() && std::ranges::next_permutation(order).found);
  }
}

TEST_P(LifetimesOn, TensorsAndTheirStream) {
  for (const bool pending : {false, true}) {
    std::string order = "adest";
    do {
      SCOPED_TRACE(order + (pending ? ", pending" : ""));
      destroy_in(order, pending);
    } while (!HasFailure() && std::ranges::next_permutation(order).found);
  }
}

TEST_P(LifetimesOn, CallsOnAnEndedStream) {
  std::optional<Stream> stream(std::in_place, shared(), "consumer");
  const StreamView view = *stream;
  const Event event(shared());
  StagingArea area(shared(), numbers_spec(), 4, {.slots = 1, .ahead = 1});
  area.put(numbers(0, 4));
  std::optional<StagedBatch> batch = area.get();
  batch->wait(view);
  stream.reset();
  std::byte bytes[8] = {};
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"record", [&] { view.record(event); }},
      {"wait", [&] { view.wait(event); }},
      {"copy",
       [&] {
         view.copy({bytes, bytes + 4, 4});
       }},
      {"copy of nothing", [&] { view.copy({}); }},
      {"clear", [&] { view.clear(bytes); }},
      {"clear of nothing", [&] { view.clear({}); }},
      {"busy", [&] { view.busy(1); }},
      {"synchronize", [&] { view.synchronize(); }},
      {"native", [&] { static_cast<void>(view.native()); }},
      {"launch", [&] { device().backend().launch({}, view.state(), Site::current()); }},
      {"a lease's wait", [&] { batch->wait(view); }},
      {"a lease's release", [&] { batch->release(view); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    EXPECT_EQ(code_of(call), ErrorCode::invalid_argument);
    EXPECT_EQ(text_of(call), has_ended("consumer"));
  }
  EXPECT_EQ(view.name(), "consumer");
  EXPECT_EQ(&view.device(), &device());
  // None of them has used up the lease.
  const Stream other(shared(), "other");
  batch->wait(other);
  expect_numbers(*batch, other, 0, 4);
  batch->release(other);
  batch->release(view);  // no-op
  area.put(numbers(4, 4));
  batch = area.get();
  const auto exports = [&] { const ExportedBatch exported(*std::move(batch), view); };
  EXPECT_EQ(text_of(exports), has_ended("consumer"));
  area.put(numbers(8, 4));
  expect_next(area, shared(), 8);
  EXPECT_TRUE(device().status().ok());
}

TEST_P(LifetimesOn, TensorAndItsStreamAtOnce) {
  StagingArea area(shared(), numbers_spec(), 4, {.slots = 1, .ahead = 1});
  for (std::int64_t k = 0; k < 200; ++k) {
    area.put(numbers(4 * k, 4));
    std::optional<Stream> stream(std::in_place, shared(), "consumer");
    ExportedBatch exported(*area.get(), *stream);
    dlpack::DLManagedTensor* tensor = exported.tensor("x");
    const auto end_tensor = [&] {
      const ExportedBatch last = std::move(exported);
      tensor->deleter(tensor);
    };
    const auto end_stream = [&] { stream.reset(); };
    const Actor actor = k % 2 == 0 ? start(end_tensor) : start(end_stream);
    k % 2 == 0 ? end_stream() : end_tensor();
  }
  area.put(numbers(-4, 4));
  expect_next(area, shared(), -4);
}

TEST_P(LifetimesOn, ShortLivedStreams) {
  StagingArea area(shared(), numbers_spec(), 4, {.slots = 2});
  for (std::int64_t k = 0; k < 1'000; ++k) {
    area.put(numbers(4 * k, 4));
    std::optional<StagedBatch> lease = area.get();
    const Stream stream(shared(), "consumer");  // ends first
    lease->wait(stream);
  }
}

TEST_P(LifetimesOn, WrapperThatEndsBeforeTheLease) {
  std::optional<Stream> own(std::in_place, shared(), "the user's");
  if (own->view().native() == nullptr) GTEST_SKIP() << "streams have no handle";
  StagingArea area(shared(), numbers_spec(), 4, {.slots = 1, .ahead = 1});
  area.put(numbers(0, 4));
  std::optional<StagedBatch> batch = area.get();
  std::optional<Stream> wrapper = Stream::wrap(shared(), own->view().native());
  const StreamView view = *wrapper;
  batch->wait(view);
  const std::function<void()> open = hold(device(), *own);
  std::vector<std::int64_t> read(4);
  own->view().copy({read.data(), (*batch)["x"].data, read.size() * sizeof(read[0])});
  wrapper.reset();
  own.reset();
  EXPECT_EQ(text_of([&] { batch->release(view); }), has_ended(view.name()));
  batch->release();
  area.put(numbers(4, 4));
  open();
  expect_next(area, shared(), 4);
  EXPECT_EQ(read, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

}  // namespace penstock::test
