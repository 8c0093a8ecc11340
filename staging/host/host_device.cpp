#include "staging/host/host_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include <penstock/internal/slow_work.h>
#include <penstock/log.h>

#include "staging/host/host_stream.h"

namespace penstock {
namespace {

HostStream& host(StreamState& stream) {
  return static_cast<HostStream&>(stream);
}
HostEvent& host(EventState& event) {
  return static_cast<HostEvent&>(event);
}

std::uint64_t physical_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::span<const std::byte> span_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

}  // namespace

/// This device treats all host memory alike, but pinning can be made to fail.
class HostDevice::Pinned final : public Allocator {
 public:
  Pinned(DeviceId id, std::uint64_t fail_from) : id_(id), fail_from_(fail_from) {}
  std::byte* allocate(std::size_t bytes) override {
    const std::uint64_t number = made.fetch_add(1, std::memory_order_relaxed) + 1;
    if (fail_from_ > 0 && number >= fail_from_) {
      refused.fetch_add(1, std::memory_order_relaxed);
      log_once(LogLevel::warning, "pageable " + id_.to_string(),
               id_.to_string() +
                   ": pinning memory was refused; batches are staged from pageable memory");
    }
    return heap().allocate(bytes);
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    heap().deallocate(data, bytes);
  }
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> refused{0};

 private:
  const DeviceId id_;
  const std::uint64_t fail_from_;
};

std::shared_ptr<HostDevice> HostDevice::make(HostOptions options) {
  return std::make_shared<HostDevice>(std::move(options));
}

HostDevice::HostDevice(HostOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : TimeSource::real()),
      checker_(options_.check ? std::make_unique<Checker>() : nullptr),
      pinned_(std::make_shared<Pinned>(id(), options_.faults.fail_pinning)) {}

HostDevice::~HostDevice() = default;

// Never destroyed, because devices may end after static objects.
Mutex& HostDevice::mutex_of_all() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

std::vector<Hazard> HostDevice::hazards() const {
  return checker_ ? checker_->hazards() : std::vector<Hazard>();
}

DeviceMemory HostDevice::memory() const {
  const std::uint64_t total = options_.memory_bytes > 0 ? options_.memory_bytes : physical_bytes();
  MutexLock lock(mutex_);
  return {total, total - std::min(total, used_bytes_)};
}

DeviceCounters HostDevice::counters() const noexcept {
  MutexLock lock(mutex_);
  DeviceCounters counters = counters_;
  counters.pinned_allocations = pinned_->made.load();
  counters.pageable_fallbacks = pinned_->refused.load();
  return counters;
}

void HostDevice::require_alive() {
  if (!lost_.ok()) throw lost_.error();
}

std::byte* HostDevice::allocate(std::size_t bytes) {
  slow_work("memory of a device is allocated");
  const DeviceMemory have = memory();
  {
    MutexLock lock(mutex_);
    require_alive();
    const std::uint64_t number = ++counters_.allocations;
    const std::uint64_t fail_from = options_.faults.fail_allocation;
    if (bytes > have.free_bytes || (fail_from > 0 && number >= fail_from)) {
      throw Error(ErrorCode::resource_exhausted, id().to_string() + ": " + std::to_string(bytes) +
                                                     " bytes of device memory wanted, " +
                                                     std::to_string(have.free_bytes) + " of " +
                                                     std::to_string(have.total_bytes) + " free");
    }
    used_bytes_ += bytes;
  }
  // Whole pages, so that they can be protected.
  void* data =
      mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data != MAP_FAILED) return static_cast<std::byte*>(data);
  MutexLock lock(mutex_);
  used_bytes_ -= bytes;
  throw Error(ErrorCode::resource_exhausted,
              id().to_string() + ": the system refused " + std::to_string(bytes) + " bytes");
}

void HostDevice::deallocate(std::byte* data, std::size_t bytes, Site site) noexcept {
  slow_work("memory of a device is freed");
  if (checker_) checker_->freed({data, bytes}, site);
  munmap(data, whole_pages(bytes));
  MutexLock lock(mutex_);
  used_bytes_ -= bytes;
}

std::shared_ptr<Allocator> HostDevice::pinned() {
  return pinned_;
}

Status HostDevice::status() noexcept {
  MutexLock lock(mutex_);
  if (!lost_.ok()) return lost_;
  return std::exchange(error_, Status());
}

std::unique_ptr<StreamState> HostDevice::create_stream(std::string name) {
  int number = 0;
  {
    MutexLock lock(mutex_);
    require_alive();
    number = streams_++;
  }
  const int checked_as = checker_ ? checker_->add_stream(name) : 0;
  return std::make_unique<HostStream>(*this, std::move(name), number, checked_as);
}

std::unique_ptr<EventState> HostDevice::create_event() {
  return std::make_unique<HostEvent>(*this);
}

void HostDevice::enqueue(StreamState& stream, Op op) {
  HostStream& to = host(stream);
  MutexLock lock(mutex_);
  require_alive();
  if (op.kind == Op::Kind::copy) {
    op.fails = ++counters_.copies == options_.faults.hang_copy;
    counters_.copied_bytes += op.bytes;
  }
  to.push(std::move(op));
}

void HostDevice::record(EventState& event, StreamState& stream, const Site&) {
  if (checker_) checker_->record(host(stream).checked_as(), &event);
  Op op;
  op.kind = Op::Kind::record;
  op.event = host(event).core();
  {
    MutexLock lock(mutex_);
    op.ticket = op.event->recorded + 1;
    op.fails = ++records_ == options_.faults.fail_record;
    op.sticky = options_.faults.sticky;
    host(stream).push(std::move(op));
    host(event).core()->recorded += 1;  // only now: a wait for the event waits for what was pushed
  }
}

void HostDevice::wait(StreamState& stream, EventState& event, const Site&) {
  if (checker_) checker_->wait(host(stream).checked_as(), &event);
  Op op;
  op.kind = Op::Kind::wait;
  op.event = host(event).core();
  {
    MutexLock lock(mutex_);
    op.ticket = op.event->recorded;
  }
  enqueue(stream, std::move(op));
}

void HostDevice::copy(const Copy& copy, StreamState& stream, const Site& site) {
  if (checker_) {
    const int actor = host(stream).checked_as();
    checker_->access(actor, span_of(copy.from, copy.bytes), false, site);
    checker_->access(actor, span_of(copy.to, copy.bytes), true, site);
  }
  Op op;
  op.kind = Op::Kind::copy;
  op.to = copy.to;
  op.from = copy.from;
  op.bytes = copy.bytes;
  enqueue(stream, std::move(op));
}

void HostDevice::clear(std::span<std::byte> memory, StreamState& stream, const Site& site) {
  if (checker_) checker_->access(host(stream).checked_as(), memory, true, site);
  Op op;
  op.kind = Op::Kind::clear;
  op.to = memory.data();
  op.bytes = memory.size();
  enqueue(stream, std::move(op));
}

void HostDevice::busy(std::int64_t nanoseconds, StreamState& stream) {
  Op op;
  op.takes_ns = nanoseconds;
  enqueue(stream, std::move(op));
}

void HostDevice::launch(HostWork work, StreamState& stream, const Site& site) {
  if (checker_) {
    const int actor = host(stream).checked_as();
    for (const auto& memory : work.reads) checker_->access(actor, memory, false, site);
    for (const auto& memory : work.writes) checker_->access(actor, memory, true, site);
  }
  Op op;
  op.call = std::move(work.run);
  op.takes_ns = work.takes_ns;
  enqueue(stream, std::move(op));
}

void HostDevice::guard(std::span<std::byte> memory, bool open, StreamState& stream) {
  if (!options_.check || memory.empty()) return;
  Op op;
  op.kind = Op::Kind::guard;
  op.to = memory.data();
  op.bytes = whole_pages(memory.size());
  op.open = open;
  enqueue(stream, std::move(op));
}

bool HostDevice::done(EventState& event) {
  {
    const HostEventCore& core = *host(event).core();
    MutexLock lock(mutex_);
    if (core.completed < core.recorded) return false;
  }
  if (checker_) checker_->saw(&event);
  return true;
}

void HostDevice::synchronize(EventState& event, const Site&) {
  {
    HostEventCore& core = *host(event).core();
    MutexLock lock(mutex_);
    ++counters_.host_waits;
    const std::uint64_t ticket = core.recorded;
    while (core.completed < ticket && !hung_) wait_on(clock_, mutex_, core.done);
  }
  if (checker_) checker_->saw(&event);
}

void HostDevice::synchronize(StreamState& stream, const Site&) {
  HostStream& of = host(stream);
  {
    MutexLock lock(mutex_);
    of.device_.mutex_.assert_held();  // the same mutex
    ++counters_.host_waits;
    const std::uint64_t until = of.enqueued_;
    while (of.executed_ < until && !hung_) wait_on(clock_, mutex_, of.idle_);
  }
  if (checker_) checker_->saw_stream(of.checked_as());
}

std::int64_t HostDevice::completed_ns(EventState& event) {
  MutexLock lock(mutex_);
  return host(event).core()->at_ns;
}

void HostDevice::wait_any(std::span<const EventView> events, Kick& flag) {
  const auto any_done = [&]() REQUIRES(mutex_) {
    return std::any_of(events.begin(), events.end(), [](const EventView& event) {
      const HostEventCore& core = *host(event.state()).core();
      return core.completed >= core.recorded;
    });
  };
  MutexLock lock(mutex_);
  while (!flag.raised && !any_done() && lost_.ok()) wait_on(clock_, mutex_, progress_);
  flag.raised = false;
}

void HostDevice::kick(Kick& flag) noexcept {
  MutexLock lock(mutex_);
  flag.raised = true;
  clock_.notify(progress_);
}

void HostDevice::take_time(std::size_t bytes, std::int64_t start) {
  std::int64_t end = start + options_.latency_ns;
  if (options_.bytes_per_s > 0) {
    const auto takes =
        static_cast<std::int64_t>(static_cast<double>(bytes) / options_.bytes_per_s * 1e9);
    MutexLock lock(mutex_);
    link_free_at_ = std::max(link_free_at_, start) + takes;
    end = link_free_at_ + options_.latency_ns;
  }
  if (end > start) clock_.sleep_until(end);
}

void HostDevice::host_access(std::span<const std::byte> memory, bool writes, const Site& site) {
  if (checker_) checker_->host_access(memory, writes, site);
}
void HostDevice::hand_over(const void* what) {
  if (checker_) checker_->hand_over(what);
}
void HostDevice::take_over(const void* what) {
  if (checker_) checker_->take_over(what);
}

}  // namespace penstock
