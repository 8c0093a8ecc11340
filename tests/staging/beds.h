// The devices on which staging's tests run.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "staging/clock.h"
#include "staging/host/host_device.h"

/// From examples/own_device.cpp: a device that uses only public headers.
penstock::DevicePtr make_threads_device(int index);

namespace penstock::test {

/// A device, and the clock it may need.
struct Bed {
  std::unique_ptr<VirtualClock> clock;
  DevicePtr device;
};

struct BedKind {
  std::string name;
  std::function<Bed()> make;  ///< null device: this machine has none of this kind
};

inline void PrintTo(const BedKind& kind, std::ostream* out) {
  *out << kind.name;
}

inline Bed host_bed(HostOptions options) {
  return {nullptr, HostDevice::make(std::move(options))};
}

inline std::vector<BedKind> bed_kinds() {
  return {
      {"host", [] { return host_bed({}); }},
      {"host_own_memory", [] { return host_bed({.unified = false}); }},
      {"host_checked", [] { return host_bed({.unified = false, .check = true}); }},
      {"host_paced",
       [] { return host_bed({.unified = false, .bytes_per_s = 4e9, .latency_ns = 20'000}); }},
      {"host_virtual",
       [] {
         auto clock = std::make_unique<VirtualClock>();
         DevicePtr device = HostDevice::make({.clock = clock.get(),
                                              .unified = false,
                                              .bytes_per_s = 1e9,
                                              .latency_ns = 5'000,
                                              .check = true});
         return Bed{std::move(clock), std::move(device)};
       }},
      {"example",
       [] {
         return Bed{nullptr, make_threads_device(0)};
       }},
      {"cuda",
       [] {
         try {
           return Bed{nullptr, device({DeviceKind::cuda, 0})};
         } catch (const Error&) {
           return Bed{};
         }
       }},
  };
}

inline std::string name_of_bed(const testing::TestParamInfo<BedKind>& info) {
  return info.param.name;
}

/// A test for each device; skipped if the machine has none.
class OnEachDevice : public testing::TestWithParam<BedKind> {
 protected:
  void SetUp() override {
    bed_ = GetParam().make();
    if (!bed_.device) GTEST_SKIP() << "no such device on this machine";
  }
  Device& device() { return *bed_.device; }
  const DevicePtr& shared() { return bed_.device; }

  Bed bed_;
};

}  // namespace penstock::test
