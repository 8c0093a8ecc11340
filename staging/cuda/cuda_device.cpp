// The device cuda:N, a thin layer over the CUDA runtime.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include <penstock/internal/thread_annotations.h>

#include "staging/clock.h"
#include "staging/cuda/device.h"
#include "staging/cuda/kernels.h"
#include "staging/cuda/pinned.h"
#include "staging/cuda/runtime.h"

namespace penstock::cuda {
namespace {

class CudaStream final : public StreamState {
 public:
  CudaStream(CUcontext context, std::string name, cudaStream_t foreign)
      : context_(context), name_(std::move(name)), stream_(foreign), owned_(foreign == nullptr) {
    const Current current(context_);
    if (!owned_) return;
    ensure(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    nvtxNameCudaStreamA(stream_, name_.c_str());
  }
  ~CudaStream() override {
    const Current current(context_);
    if (owned_) static_cast<void>(cudaStreamDestroy(stream_));
  }
  const std::string& name() const noexcept override { return name_; }
  void* native() const noexcept override { return stream_; }
  cudaStream_t stream() const noexcept { return stream_; }

 private:
  const CUcontext context_;
  const std::string name_;
  cudaStream_t stream_;
  const bool owned_;
};

class CudaEvent final : public EventState {
 public:
  explicit CudaEvent(CUcontext context) : context_(context) {
    const Current current(context_);
    ensure(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "an event");
  }
  ~CudaEvent() override {
    const Current current(context_);
    static_cast<void>(cudaEventDestroy(event_));
  }
  cudaEvent_t event() const noexcept { return event_; }

 private:
  const CUcontext context_;
  cudaEvent_t event_ = nullptr;
};

cudaStream_t native(StreamState& stream) {
  return static_cast<cudaStream_t>(stream.native());
}
cudaEvent_t native(EventState& event) {
  return static_cast<CudaEvent&>(event).event();
}

class CudaDevice final : public DeviceBackend {
 public:
  CudaDevice(int index, const CudaServices& services)
      : index_(index),
        clock_(*services.clock),
        context_(primary_context(index)),
        pinned_(std::make_shared<Pinned>(index, context_, services)),
        base_stream_(context_, "base", nullptr) {
    const Current current(context_);
    ensure(load_kernels(), id().to_string() + ": loading kernels");
    cudaDeviceProp properties{};
    ensure(cudaGetDeviceProperties(&properties, index), id().to_string());
    name_ = properties.name;
    MutexLock lock(base_mutex_);
    base_ = std::make_unique<CudaEvent>(context_);
    const auto before = static_cast<double>(clock_.now());
    mark(*base_);
    base_ns_ = (before + static_cast<double>(clock_.now())) / 2;
  }

  DeviceId id() const noexcept override { return {DeviceKind::cuda, index_}; }
  std::string name() const override { return name_; }
  bool unified() const noexcept override { return false; }
  DeviceMemory memory() const override {
    const Current current(context_);
    std::size_t free = 0;
    std::size_t total = 0;
    ensure(cudaMemGetInfo(&free, &total), id().to_string() + ": asking for its memory");
    return {total, free};
  }
  DeviceCounters counters() const noexcept override {
    DeviceCounters counters;
    counters.allocations = allocations_;
    counters.copies = copies_;
    counters.copied_bytes = copied_bytes_;
    counters.host_waits = host_waits_;
    counters.pinned_allocations = pinned_->made;
    counters.pageable_fallbacks = pinned_->refused;
    return counters;
  }

  std::byte* allocate(std::size_t bytes) override {
    const DeviceMemory have = memory();
    const Current current(context_);
    ++allocations_;
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      throw Error(ErrorCode::resource_exhausted, id().to_string() + ": " + std::to_string(bytes) +
                                                     " bytes of device memory wanted, " +
                                                     std::to_string(have.free_bytes) + " of " +
                                                     std::to_string(have.total_bytes) + " free");
    }
    require(error, "cudaMalloc");
    return static_cast<std::byte*>(data);
  }
  void deallocate(std::byte* data, std::size_t /*bytes*/, Site /*site*/) noexcept override {
    const Current current(context_);
    note(cudaFree(data), "cudaFree");
  }
  std::shared_ptr<Allocator> pinned() override { return pinned_; }
  void enable_peer(Device& other) override {
    if (other.id().kind != DeviceKind::cuda || other.id() == id()) return;
    const Current current(context_);
    int can = 0;
    require(cudaDeviceCanAccessPeer(&can, index_, other.id().index), "cudaDeviceCanAccessPeer");
    if (can == 0) return;
    const cudaError_t error = cudaDeviceEnablePeerAccess(other.id().index, 0);
    if (is_sticky(error)) require(error, "cudaDeviceEnablePeerAccess");
    static_cast<void>(cudaGetLastError());  // enabled before, or for too many others
  }

  // The error that broke a context may have been reported to another runtime of the process. This
  // one learns of it by a request to the driver.
  Status status() noexcept override {
    {
      const Current current(context_);
      note(cudaGetLastError(), "earlier work");
      note(cudaStreamQuery(base_stream_.stream()), "earlier work");
    }
    MutexLock lock(mutex_);
    if (!lost_.ok()) return lost_;
    return std::exchange(error_, Status());
  }

  std::unique_ptr<StreamState> create_stream(std::string name) override {
    return std::make_unique<CudaStream>(context_, std::move(name), nullptr);
  }
  std::unique_ptr<EventState> create_event() override {
    return std::make_unique<CudaEvent>(context_);
  }
  std::unique_ptr<StreamState> wrap_stream(void* stream) override {
    if (stream == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  id().to_string() + ": the default stream can't be named; use one of your own");
    }
    return std::make_unique<CudaStream>(context_, "the caller's",
                                        static_cast<cudaStream_t>(stream));
  }

  void record(EventState& event, StreamState& stream, const Site& /*site*/) override {
    const Current current(context_);
    require(cudaEventRecord(native(event), native(stream)), "cudaEventRecord", stream);
  }
  void wait(StreamState& stream, EventState& event, const Site& /*site*/) override {
    const Current current(context_);
    require(cudaStreamWaitEvent(native(stream), native(event), 0), "cudaStreamWaitEvent", stream);
  }
  void copy(const Copy& copy, StreamState& stream, const Site& /*site*/) override {
    const Current current(context_);
    ++copies_;
    copied_bytes_ += copy.bytes;
    require(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDefault, native(stream)),
            "cudaMemcpyAsync", stream);
  }
  void clear(std::span<std::byte> memory, StreamState& stream, const Site& /*site*/) override {
    const Current current(context_);
    require(cudaMemsetAsync(memory.data(), 0, memory.size(), native(stream)), "cudaMemsetAsync",
            stream);
  }
  void busy(std::int64_t nanoseconds, StreamState& stream) override {
    const Current current(context_);
    require(cuda::busy(nanoseconds, native(stream)), "a step", stream);
  }

  bool done(EventState& event) override {
    const Current current(context_);
    const cudaError_t error = cudaEventQuery(native(event));
    note(error, "work in front of an event");
    return error != cudaErrorNotReady;
  }
  void synchronize(EventState& event, const Site& /*site*/) override {
    const Current current(context_);
    ++host_waits_;
    note(cudaEventSynchronize(native(event)), "work in front of an event");
  }
  void synchronize(StreamState& stream, const Site& /*site*/) override {
    const Current current(context_);
    ++host_waits_;
    note(cudaStreamSynchronize(native(stream)), "work on stream " + stream.name());
  }

  // As floats, times lose nanoseconds after minutes, so the base event is replaced now and then.
  // The device's clock drifts from the host's, so the time of the new base must be between two
  // readings of the host's clock.
  std::int64_t completed_ns(EventState& event) override {
    constexpr float kMoveOn_ms = 4000;
    const Current current(context_);
    MutexLock lock(base_mutex_);
    float ms = 0;
    if (cudaEventElapsedTime(&ms, base_->event(), native(event)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return now();
    }
    const auto at = static_cast<std::int64_t>(base_ns_ + 1e6 * static_cast<double>(ms));
    if (ms > kMoveOn_ms) {
      auto next = std::make_unique<CudaEvent>(context_);
      const auto before = static_cast<double>(now());
      mark(*next);
      const auto behind = static_cast<double>(now());
      float between = 0;
      if (cudaEventElapsedTime(&between, base_->event(), next->event()) == cudaSuccess) {
        base_ns_ = std::clamp(base_ns_ + 1e6 * static_cast<double>(between), before, behind);
        base_ = std::move(next);
      }
    }
    return at;
  }

  void run(const reconstruct::Batch& batch, StreamState& stream) {
    const Current current(context_);
    require(reconstruct_batch(batch, native(stream)), "a reconstruction kernel");
  }

  template <typename Plan>
  void run(cudaError_t (*kernel)(const Plan&, cudaStream_t), const Plan& plan,
           StreamState& stream) {
    const Current current(context_);
    require(kernel(plan, native(stream)), "a finishing kernel");
  }

  TimeSource& time() const noexcept override { return clock_; }

  void wait_any(std::span<const EventView> events, Kick& flag) override {
    {
      MutexLock lock(mutex_);
      if (std::exchange(flag.raised, false)) return;
      if (events.empty()) {
        while (!flag.raised) wait_on(clock_, mutex_, kicked_);
        flag.raised = false;
        return;
      }
    }
    // CUDA waits for only one event, can't be woken by a kick, and would wait forever for an event
    // that hangs.
    constexpr std::int64_t kFirst_ns = 20'000;
    constexpr std::int64_t kLongest_ns = 1'000'000;
    for (std::int64_t pause = kFirst_ns;; pause = std::min(2 * pause, kLongest_ns)) {
      if (is_any_done(events)) return;
      MutexLock lock(mutex_);
      const std::int64_t until = clock_.now() + pause;
      while (!flag.raised && clock_.now() < until) wait_on(clock_, mutex_, kicked_, until);
      if (std::exchange(flag.raised, false)) return;
    }
  }
  void kick(Kick& flag) noexcept override {
    MutexLock lock(mutex_);
    flag.raised = true;
    clock_.notify(kicked_);
  }
  void begin_range(const char* name) noexcept override { nvtxRangePushA(name); }
  void end_range() noexcept override { nvtxRangePop(); }

 private:
  /// Remembers an error.
  void note(cudaError_t error, const std::string& what) noexcept {
    if (error == cudaSuccess || error == cudaErrorNotReady) return;
    Status status = status_of(error, id().to_string() + ": " + what);
    MutexLock lock(mutex_);
    const bool lost = status.error().code() == ErrorCode::device_lost;
    (lost ? lost_ : error_) = std::move(status);
  }
  /// Asks the oldest event first.
  bool is_any_done(std::span<const EventView> events) {
    const Current current(context_);
    for (const EventView& event : events) {
      const cudaError_t error = cudaEventQuery(native(event.state()));
      note(error, "work in front of an event");
      if (error != cudaErrorNotReady) return true;
    }
    return false;
  }
  /// Throws the error. An error that loses the device is also remembered.
  void require(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    if (is_sticky(error)) note(error, what);
    ensure(error, id().to_string() + ": " + what);
  }
  void require(cudaError_t error, const char* what, const StreamState& stream) {
    if (error != cudaSuccess)
      require(error, (std::string(what) + " on stream " + stream.name()).c_str());
  }
  void mark(CudaEvent& event) {
    ensure(cudaEventRecord(event.event(), base_stream_.stream()), "cudaEventRecord");
    ensure(cudaEventSynchronize(event.event()), "cudaEventSynchronize");
  }

  const int index_;
  TimeSource& clock_;
  const CUcontext context_;
  const std::shared_ptr<Pinned> pinned_;
  CudaStream base_stream_;
  std::string name_;
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::uint64_t> copies_{0};
  std::atomic<std::uint64_t> copied_bytes_{0};
  std::atomic<std::uint64_t> host_waits_{0};

  Mutex base_mutex_;
  std::unique_ptr<CudaEvent> base_ GUARDED_BY(base_mutex_);
  double base_ns_ GUARDED_BY(base_mutex_) = 0;

  Mutex mutex_;
  Signal kicked_;
  Status error_ GUARDED_BY(mutex_);
  Status lost_ GUARDED_BY(mutex_);
};

}  // namespace

DevicePtr make_device(int index, const CudaServices& services) {
  return std::make_shared<CudaDevice>(index, services);
}

void finish_on(const FinishPlan& plan, StreamView stream) {
  static_cast<CudaDevice&>(stream.device()).run(&finish, plan, stream.state());
}
void one_hot_on(const OneHotPlan& plan, StreamView stream) {
  static_cast<CudaDevice&>(stream.device()).run(&one_hot, plan, stream.state());
}
void reconstruct_on(const reconstruct::Batch& batch, StreamView stream) {
  static_cast<CudaDevice&>(stream.device()).run(batch, stream.state());
}

}  // namespace penstock::cuda
