// A device of your own: memory is a plain allocation, and each stream a thread with a queue.
//
// Prints:
//     other:0 is threads
//     values 0 1 4 9, sum 14
//     values 16 25, sum 41
//     copies 2, waits of the host 2
//
// Staging knows devices by penstock/device_backend.h alone. Penstock's tests link this file, too:
// the device passes the suite that all devices do.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <penstock/device_backend.h>
#include <penstock/penstock.h>

namespace ps = penstock;

ps::DevicePtr make_threads_device(int index);

namespace {

constexpr std::uint64_t kMemoryBytes = std::uint64_t{1} << 30;

std::byte* aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  void* data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return static_cast<std::byte*>(data);
}

// All devices of this kind share it, because a stream may wait for another device's event. Never
// destroyed: devices may end after static objects do.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  static Progress& get() {
    static auto* const progress = new Progress;
    return *progress;
  }
};

// An event: how often it was recorded, and how many of those a stream has got to. Shared with the
// queues in which it stands, so that the event itself may go.
struct Marks {
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  std::int64_t reached_ns = 0;
  bool done() const { return reached >= recorded; }
};

class ThreadsEvent final : public ps::EventState {
 public:
  const std::shared_ptr<Marks> marks = std::make_shared<Marks>();
};

// A queue of work and the thread that does it.
class ThreadsStream final : public ps::StreamState {
 public:
  explicit ThreadsStream(std::string name) : name_(std::move(name)), thread_([this] { serve(); }) {}
  ~ThreadsStream() override {
    const std::lock_guard lock(progress_.mutex);
    ended_ = true;
    progress_.changed.notify_all();
  }  // and the thread, the last member, is joined when the queue is empty
  const std::string& name() const noexcept override { return name_; }

  void push(std::function<void()> work) {
    const std::lock_guard lock(progress_.mutex);
    queue_.push_back(std::move(work));
    progress_.changed.notify_all();
  }
  // REQUIRES: the caller holds `lock`.
  void wait_until_idle(std::unique_lock<std::mutex>& lock) {
    progress_.changed.wait(lock, [this] { return queue_.empty(); });
  }

 private:
  void serve() {
    std::unique_lock lock(progress_.mutex);
    for (;;) {
      progress_.changed.wait(lock, [this] { return ended_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> work = queue_.front();
      lock.unlock();
      work();
      lock.lock();
      queue_.pop_front();
      progress_.changed.notify_all();
    }
  }

  Progress& progress_ = Progress::get();
  const std::string name_;
  std::deque<std::function<void()>> queue_;  // the first is being done
  bool ended_ = false;
  std::jthread thread_;
};

// All host memory is alike to this device: it only counts.
class CountedMemory final : public ps::Allocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    ++allocations;
    return heap().allocate(bytes);
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    heap().deallocate(data, bytes);
  }
  std::atomic<std::uint64_t> allocations{0};
};

class ThreadsDevice final : public ps::DeviceBackend {
 public:
  explicit ThreadsDevice(int index) : index_(index) {}

  // What users call.
  ps::DeviceId id() const noexcept override { return {ps::DeviceKind::other, index_}; }
  std::string name() const override { return "threads"; }
  bool unified() const noexcept override { return false; }  // batches are copied
  ps::DeviceMemory memory() const override { return {kMemoryBytes, kMemoryBytes - used_}; }
  ps::DeviceCounters counters() const noexcept override {
    ps::DeviceCounters counters;
    counters.allocations = allocations_;
    counters.pinned_allocations = pinned_->allocations;
    counters.copies = copies_;
    counters.copied_bytes = copied_bytes_;
    counters.host_waits = host_waits_;
    return counters;
  }
  std::byte* allocate(std::size_t bytes) override {
    ++allocations_;
    const std::uint64_t used = used_.fetch_add(bytes);
    std::byte* data =
        bytes <= kMemoryBytes && used <= kMemoryBytes - bytes ? aligned(bytes) : nullptr;
    if (data != nullptr) return data;
    used_ -= bytes;
    throw ps::Error(ps::ErrorCode::resource_exhausted,
                    id().to_string() + ": " + std::to_string(bytes) + " bytes wanted, " +
                        std::to_string(memory().free_bytes) + " free");
  }
  void deallocate(std::byte* data, std::size_t bytes, ps::Site) noexcept override {
    std::free(data);
    used_ -= bytes;
  }
  std::shared_ptr<ps::Allocator> pinned() override { return pinned_; }
  ps::Status status() noexcept override { return {}; }  // nothing can go wrong here

  // What streams, events and staging call.
  ps::TimeSource& time() const noexcept override { return ps::TimeSource::real(); }
  std::unique_ptr<ps::StreamState> create_stream(std::string name) override {
    return std::make_unique<ThreadsStream>(std::move(name));
  }
  std::unique_ptr<ps::EventState> create_event() override {
    return std::make_unique<ThreadsEvent>();
  }
  void record(ps::EventState& event, ps::StreamState& stream, const ps::Site&) override {
    const std::shared_ptr<Marks> marks = of(event);
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(progress_.mutex);
      number = ++marks->recorded;
    }
    of(stream).push([this, marks, number] {
      const std::lock_guard lock(progress_.mutex);
      marks->reached = std::max(marks->reached, number);
      marks->reached_ns = time().now();
      progress_.changed.notify_all();
    });
  }
  void wait(ps::StreamState& stream, ps::EventState& event, const ps::Site&) override {
    const std::shared_ptr<Marks> marks = of(event);
    const std::uint64_t number = [&] {
      const std::lock_guard lock(progress_.mutex);
      return marks->recorded;
    }();
    of(stream).push([this, marks, number] {
      std::unique_lock lock(progress_.mutex);
      progress_.changed.wait(lock, [&] { return marks->reached >= number; });
    });
  }
  void copy(const ps::Copy& copy, ps::StreamState& stream, const ps::Site&) override {
    ++copies_;
    copied_bytes_ += copy.bytes;
    of(stream).push([copy] { std::memmove(copy.to, copy.from, copy.bytes); });
  }
  void clear(std::span<std::byte> memory, ps::StreamState& stream, const ps::Site&) override {
    of(stream).push([memory] { std::fill(memory.begin(), memory.end(), std::byte{0}); });
  }
  void busy(std::int64_t nanoseconds, ps::StreamState& stream) override {
    of(stream).push(
        [nanoseconds] { std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds)); });
  }
  void launch(ps::HostWork work, ps::StreamState& stream, const ps::Site&) override {
    of(stream).push(std::move(work.run));
  }
  bool done(ps::EventState& event) override {
    const std::lock_guard lock(progress_.mutex);
    return of(event)->done();
  }
  void synchronize(ps::EventState& event, const ps::Site&) override {
    ++host_waits_;
    std::unique_lock lock(progress_.mutex);
    const std::uint64_t number = of(event)->recorded;
    progress_.changed.wait(lock, [&] { return of(event)->reached >= number; });
  }
  void synchronize(ps::StreamState& stream, const ps::Site&) override {
    ++host_waits_;
    std::unique_lock lock(progress_.mutex);
    of(stream).wait_until_idle(lock);
  }
  std::int64_t completed_ns(ps::EventState& event) override {
    const std::lock_guard lock(progress_.mutex);
    return of(event)->reached_ns;
  }
  void wait_any(std::span<const ps::EventView> events, ps::Kick& flag) override {
    std::unique_lock lock(progress_.mutex);
    progress_.changed.wait(lock, [&] {
      return flag.raised ||
             std::any_of(events.begin(), events.end(),
                         [](const ps::EventView& event) { return of(event.state())->done(); });
    });
    flag.raised = false;
  }
  void kick(ps::Kick& flag) noexcept override {
    const std::lock_guard lock(progress_.mutex);
    flag.raised = true;
    progress_.changed.notify_all();
  }

 private:
  static const std::shared_ptr<Marks>& of(ps::EventState& event) {
    return static_cast<ThreadsEvent&>(event).marks;
  }
  static ThreadsStream& of(ps::StreamState& stream) { return static_cast<ThreadsStream&>(stream); }

  Progress& progress_ = Progress::get();
  const int index_;
  const std::shared_ptr<CountedMemory> pinned_ = std::make_shared<CountedMemory>();
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::uint64_t> copies_{0};
  std::atomic<std::uint64_t> copied_bytes_{0};
  std::atomic<std::uint64_t> host_waits_{0};
};

}  // namespace

ps::DevicePtr make_threads_device(int index) {
  return std::make_shared<ThreadsDevice>(index);
}

int main() {
  const ps::DevicePtr device = make_threads_device(0);
  std::printf("%s is %s\n", device->id().to_string().c_str(), device->name().c_str());
  const ps::Dataset squares = ps::range(6).map([](ps::Element element) {
    const auto value = element["value"].item<std::int64_t>();
    element["value"] = ps::Tensor::scalar(value * value);
    return element;
  });

  const ps::Dataset batches = squares.batch(4);
  ps::StagingArea area(device, batches.spec(), 4);
  const ps::Stream compute(device, "compute");
  ps::Iterator iterator = batches.iterate();
  for (ps::Element& batch_on_host : iterator) {
    area.put(std::move(batch_on_host));
    std::optional<ps::StagedBatch> batch = area.get();
    const ps::DeviceTensor& values = (*batch)["value"];
    std::int64_t sum = 0;
    batch->wait(compute);
    const auto step = [&sum, data = reinterpret_cast<const std::int64_t*>(values.data),
                       rows = batch->valid_rows()] {
      std::printf("values");
      for (std::int64_t i = 0; i < rows; ++i) {
        std::printf(" %d", static_cast<int>(data[i]));
        sum += data[i];
      }
    };
    device->backend().launch({.run = step}, compute.view().state(), ps::Site::current());
    batch->release(compute);
    compute.view().synchronize();
    std::printf(", sum %d\n", static_cast<int>(sum));
  }
  const ps::DeviceCounters counters = device->counters();
  std::printf("copies %d, waits of the host %d\n", static_cast<int>(counters.copies),
              static_cast<int>(counters.host_waits));
  return 0;
}
