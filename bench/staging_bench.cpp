// Staging against the device's own speed: penstock_staging_bench DEVICE [SECONDS]
//
// Prints one JSON object. `copies`: staged batches beside a loop that asks for the same copies from
// the same pinned memory and for nothing else; the same loop from pageable memory is given beside
// it. `hidden`: the share of the copies that steps of equal length hide, with two slots and with
// three, beyond what such steps take alone, so that gaps between launches are not taken for lost
// overlap. `finish`: the finishing kernel beside a copy on the device, both in bytes read and
// written. Compared rates are taken in turn, and the median of their ratios is given.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <penstock/finish.h>
#include <penstock/staging_area.h>

#include "bench/main.h"
#include "bench/measure.h"

namespace penstock::bench {
namespace {

constexpr int kRounds = 5;
constexpr std::size_t kMiB = 1UL << 20;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds that a stream takes for work that is asked for `times` times.
double seconds_of(StreamView stream, int times, const std::function<void()>& work) {
  work();
  stream.synchronize();
  const double start = now_s();
  for (int i = 0; i < times; ++i) work();
  stream.synchronize();
  return (now_s() - start) / times;
}

/// Device memory until the end.
class Region {
 public:
  Region(DevicePtr device, std::size_t bytes)
      : device_(std::move(device)), bytes_(bytes), data_(device_->allocate(bytes)) {}
  ~Region() { device_->deallocate(data_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  std::byte* data() const noexcept { return data_; }

 private:
  DevicePtr device_;
  std::size_t bytes_;
  std::byte* data_;
};

/// Batches of one row in pinned memory.
std::vector<Element> batches_of(Device& device, std::size_t bytes, int count) {
  std::vector<Element> batches;
  for (int i = 0; i < count; ++i) {
    const BufferPtr memory = allocate_buffer(bytes, *device.pinned());
    std::fill_n(memory->data(), bytes, static_cast<std::byte>(i + 1));
    const Shape shape({1, static_cast<std::int64_t>(bytes)});
    Element batch{{"x", Tensor(DType::u8, shape, memory->data(), memory)}};
    batch.valid_rows = 1;
    batches.push_back(std::move(batch));
  }
  return batches;
}

/// Seconds a batch of a tower whose steps take so long.
double staged_seconds(const DevicePtr& device, const std::vector<Element>& batches, int times,
                      std::int64_t step_ns, int slots) {
  constexpr int kWarm = 4;
  const auto bytes = static_cast<std::int64_t>(batches[0][0].nbytes());
  StagingOptions options;
  options.slots = slots;
  StagingArea area(device, Spec({{"x", DType::u8, Shape({-1, bytes})}}), 1, options);
  const Stream compute(device, "compute");
  std::jthread producer([&] {
    for (int k = 0; k < kWarm + times; ++k) {
      Piece piece{batches[static_cast<std::size_t>(k) % batches.size()], 0, 1, false};
      area.put(area.reserve(), {&piece, 1});
    }
  });
  double start = 0;
  for (int k = 0; k < kWarm + times; ++k) {
    StagedBatch batch = area.get().value();
    if (k == kWarm) {
      compute.view().synchronize();
      start = now_s();
    }
    batch.wait(compute);
    if (step_ns > 0) compute.view().busy(step_ns);
    batch.release(compute);
  }
  compute.view().synchronize();
  return (now_s() - start) / times;
}

void copies(const DevicePtr& device, double seconds) {
  std::string hidden;
  const Stream alone(device, "steps alone");
  std::printf("  \"copies\": [");
  // In a few seconds nothing is measured; a rehearsal shows that it could be.
  const std::vector<std::size_t> sizes =
      seconds < 5 ? std::vector<std::size_t>{1} : std::vector<std::size_t>{8, 16, 32, 64};
  for (const std::size_t mib : sizes) {
    const std::size_t bytes = mib * kMiB;
    const std::vector<Element> batches = batches_of(*device, bytes, 4);
    const Region to(device, 2 * bytes);
    const Stream stream(device, "bare");
    std::size_t next = 0;
    const auto copy = [&] {
      const Element& from = batches[next % batches.size()];
      stream.view().copy({to.data() + next % 2 * bytes, from[0].data(), bytes});
      ++next;
    };
    const double once = seconds_of(stream, 3, copy);
    const int times = std::clamp(static_cast<int>(seconds / 20 / kRounds / once), 10, 2000);
    const std::vector<std::byte> heap(bytes, std::byte{1});
    const auto copy_pageable = [&] { stream.view().copy({to.data(), heap.data(), bytes}); };
    std::vector<double> bare;
    std::vector<double> pageable;
    std::vector<double> staged;
    std::vector<double> ratio;
    std::vector<double> share[2];  // with two slots, and with three
    for (int round = 0; round < kRounds; ++round) {
      bare.push_back(seconds_of(stream, times, copy));
      pageable.push_back(seconds_of(stream, std::max(times / 10, 3), copy_pageable));
      staged.push_back(staged_seconds(device, batches, times, 0, 2));
      ratio.push_back(bare.back() / staged.back());
      const auto step_ns = static_cast<std::int64_t>(bare.back() * 1e9);
      const double steps = seconds_of(alone, times, [&] { alone.view().busy(step_ns); });
      for (int more = 0; more < 2; ++more) {
        const double both = staged_seconds(device, batches, times, step_ns, 2 + more);
        share[more].push_back(1 - std::max(0.0, both - steps) / bare.back());
      }
    }
    const double gb = 1e-9 * static_cast<double>(bytes);
    std::printf(
        "%s{\"mib\": %zu, \"bare_gb_s\": %.3f, \"pageable_gb_s\": %.3f, \"staged_gb_s\": %.3f, "
        "\"ratio\": %.4f}",
        mib == sizes.front() ? "" : ", ", mib, gb / median(bare), gb / median(pageable),
        gb / median(staged), median(ratio));
    char text[96];
    std::snprintf(text, sizeof(text), "%s{\"mib\": %zu, \"share\": %.4f, \"share_of_3\": %.4f}",
                  mib == sizes.front() ? "" : ", ", mib, median(share[0]), median(share[1]));
    hidden += text;
  }
  std::printf("],\n  \"hidden\": [%s],\n", hidden.c_str());
}

void finish(const DevicePtr& device, double seconds) {
  // On the host the kernels' twins are not built to be fast.
  const std::int64_t count = device->id().kind == DeviceKind::cuda ? 256 : 2;
  constexpr std::int64_t kSide = 224;
  const auto volume = static_cast<std::size_t>(count * kSide * kSide * 3);
  const Region images(device, volume);
  const Region out(device, 4 * volume);
  const Region other(device, 4 * volume);
  const Stream stream(device, "finish");
  stream.view().clear({images.data(), volume});
  stream.view().clear({other.data(), 4 * volume});
  const DeviceTensor in{DType::u8, Shape({count, kSide, kSide, 3}), images.data(), nullptr};
  struct Case {
    const char* name;
    DType dtype;
    bool first;
  };
  std::printf("  \"finish\": [");
  bool begun = false;
  for (const Case& one :
       {Case{"f32 CHW", DType::f32, true}, Case{"f32 HWC", DType::f32, false},
        Case{"f16 CHW", DType::f16, true}, Case{"f16 HWC", DType::f16, false},
        Case{"bf16 CHW", DType::bf16, true}, Case{"bf16 HWC", DType::bf16, false}}) {
    const Shape shape =
        one.first ? Shape({count, 3, kSide, kSide}) : Shape({count, kSide, kSide, 3});
    const DeviceTensor result{one.dtype, shape, out.data(), nullptr};
    const FinishOptions options{
        .channels_first = one.first, .mean = {123, 117, 104}, .stddev = {58, 57, 57, 1}};
    const auto run = [&] { finish_images(stream, in, nullptr, result, options); };
    const double moved =
        static_cast<double>(volume) * (1 + static_cast<double>(size_of(one.dtype)));
    const auto half = static_cast<std::size_t>(moved / 2);
    const auto copy = [&] { stream.view().copy({out.data(), other.data(), half}); };
    const double once = seconds_of(stream, 2, run);
    const int times = std::clamp(static_cast<int>(seconds / 20 / kRounds / once), 5, 5000);
    std::vector<double> ours;
    std::vector<double> bare;
    std::vector<double> ratio;
    for (int round = 0; round < kRounds; ++round) {
      ours.push_back(seconds_of(stream, times, run));
      bare.push_back(seconds_of(stream, times, copy));
      ratio.push_back(bare.back() / ours.back());
    }
    std::printf("%s{\"to\": \"%s\", \"gb_s\": %.1f, \"copy_gb_s\": %.1f, \"ratio\": %.4f}",
                begun ? ", " : "", one.name, 1e-9 * moved / median(ours),
                1e-9 * moved / median(bare), median(ratio));
    begun = true;
  }
  std::printf("]\n");
}

}  // namespace

int run(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: penstock_staging_bench DEVICE [SECONDS]\n", stderr);
    return 2;
  }
  const double seconds = argc == 3 ? std::atof(argv[2]) : 30;
  const DevicePtr device = devices(argv[1]).front();
  std::printf("{\n  \"device\": \"%s\",\n", device->name().c_str());
  copies(device, seconds);
  finish(device, seconds);
  std::printf("}\n");
  return 0;
}

}  // namespace penstock::bench
