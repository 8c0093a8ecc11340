// Streams and events of the made-up CUDA runtime. Work is done when it is requested, unless the
// stream waits: for an event, or because the test holds it up.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

/// An event. Work that records it or waits for it may outlive it, and so shares `marks`.
struct CUevent_st {
  struct Marks {
    std::uint64_t recorded = 0;
    std::uint64_t reached = 0;
    double at_ns = 0;  // when it was reached last
  };
  const std::shared_ptr<Marks> marks = std::make_shared<Marks>();
  std::atomic<bool> hangs = false;
};

namespace penstock::test {

/// All of them are thread-safe.
cudaStream_t make_stream();
bool is_live(cudaStream_t stream);
/// Ends the stream. The work that it has been given is done, now or later.
void end_stream(cudaStream_t stream);
/// Returns the number of streams that have not ended.
int live_streams();
/// Does the work once all of the stream's earlier work is done.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Records the event; `now` says when.
void enqueue_record(cudaStream_t stream, CUevent_st& event, std::function<double()> now);
void enqueue_wait(cudaStream_t stream, CUevent_st& event);
/// Holds later work of the stream up, until the result is called.
std::function<void()> hold_up(cudaStream_t stream);
bool is_reached(const CUevent_st& event);
double reached_at(const CUevent_st& event);
/// Block until the event is reached, or the stream's work is done.
void await(const CUevent_st& event);
void await(cudaStream_t stream);

}  // namespace penstock::test
