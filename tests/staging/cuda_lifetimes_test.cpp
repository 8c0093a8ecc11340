// The same on a CUDA device over a made-up runtime, which aborts on a call with a destroyed stream;
// and an end that CUDA does not record.
#include <string>

#include "staging/cuda/device.h"
#include "tests/staging/fake_cudart.h"
#include "tests/staging/lifetimes_on.h"

namespace penstock::test {

std::function<void()> hold(Device& /*device*/, StreamView stream) {
  return hold_up(static_cast<cudaStream_t>(stream.native()));
}

namespace {

Bed emulated() {
  reset_cudart();
  cudart.clock = &TimeSource::real();
  const CudaServices services{&TimeSource::real(),
                              [](LogLevel, std::string_view, std::string_view) { return true; }};
  return {nullptr, cuda::make_device(0, services)};
}

TEST(CudaLifetimes, ShortLivedStreams) {
  const Bed bed = emulated();
  StagingArea area(bed.device, numbers_spec(), 4, {.slots = 2});
  int events = 0;
  int streams = 0;
  for (int k = 0; k < 1'000; ++k) {
    area.put(numbers(4 * k, 4));
    std::optional<StagedBatch> lease = area.get();
    {
      const Stream stream(bed.device, "consumer");
      lease->wait(stream);
    }
    lease.reset();
    if (k == 10) {
      events = cudart.events;
      streams = live_streams();
    }
  }
  EXPECT_LE(cudart.events, events + 4);  // ends that the area's slots and flights still know
  EXPECT_EQ(live_streams(), streams);
}

TEST(CudaLifetimes, UnrecordedEnd) {
  for (const std::string function : {"cudaEventCreateWithFlags", "cudaEventRecord"}) {
    SCOPED_TRACE(function);
    const Bed bed = emulated();
    StagingArea area(bed.device, numbers_spec(), 4, {.slots = 1, .ahead = 1});
    area.put(numbers(0, 4));
    std::optional<StagedBatch> lease = area.get();
    std::optional<Stream> stream(std::in_place, bed.device, "consumer");
    lease->wait(*stream);
    lease->synchronize();
    fail_call(function, 1, cudaErrorInvalidValue);
    stream.reset();
    EXPECT_EQ(calls()["cudaStreamSynchronize"], 1);
    lease.reset();
    const auto next = [&] { static_cast<void>(area.get()); };
    EXPECT_EQ(code_of(next), ErrorCode::unavailable);
    EXPECT_EQ(text_of(next),
              "cuda:0: the stream \"consumer\" has ended, and its end could not be recorded");
  }
}

TEST(CudaLifetimes, EndedWrappedStream) {
  const Bed bed = emulated();
  StagingArea area(bed.device, numbers_spec(), 4, {.slots = 1, .ahead = 1});
  area.put(numbers(0, 4));
  std::optional<StagedBatch> lease = area.get();
  std::optional<Stream> own(std::in_place, bed.device, "the user's");
  const Stream wrapper = Stream::wrap(bed.device, own->view().native());
  lease->wait(wrapper);
  own.reset();  // against the rule, and CUDA notices
  cudart.tells_ended_streams = true;
  const std::string text = "cuda:0: cudaEventRecord on stream the caller's: an error (cudaError)";
  EXPECT_EQ(text_of([&] { wrapper.view().record(Event(bed.device)); }), text);
  lease.reset();
  EXPECT_EQ(text_of([&] { static_cast<void>(area.get()); }), text);
}

INSTANTIATE_TEST_SUITE_P(Emulated, LifetimesOn, testing::Values(BedKind{"cuda", emulated}),
                         name_of_bed);

}  // namespace
}  // namespace penstock::test
