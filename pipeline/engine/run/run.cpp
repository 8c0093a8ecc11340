#include "pipeline/engine/run/run.h"

#include <algorithm>
#include <string>

#include <penstock/log.h>

#include "pipeline/core/machine.h"

namespace penstock {
namespace {

constexpr int kUsualReaders = 64;
constexpr int kReadersEach = 128;  // for each thread that computes

/// The numbers of threads of one run.
struct Threads {
  int compute = 0;
  int waiting = 0;  // at most
};

void check(const RunOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, what);
  };
  const auto check_range = [&](const char* name, int value, int most) {
    if (value < 0 || value > most)
      refuse(std::string(name) + " must be in [0, " + std::to_string(most) + "], not " +
             std::to_string(value));
  };
  check_range("threads", options.threads, kMostThreads);
  check_range("io_threads", options.io_threads, kMostIoThreads);
  check_range("slots", options.slots, 1 << 20);
  if (options.epochs == 0) refuse("epochs must be at least 1");
  // Written so that NaN is rejected.
  if (const std::optional<double> share = options.max_error_share;
      share && !(*share >= 0 && *share <= 1))
    refuse("max_error_share must be in [0, 1], not " + std::to_string(*share));
  const bool bounded = options.max_errors != RunOptions().max_errors || options.max_error_share;
  if (options.on_error != OnError::skip && (bounded || !options.quarantine.empty()))
    refuse("max_errors, max_error_share and quarantine need OnError::skip");
}

/// Returns the requested numbers of threads, limited to those that the system lets this process
/// start. They are started when they are needed, so the limit leaves room for the threads that
/// arrange elements.
Threads threads_for(const RunOptions& options) {
  check(options);
  constexpr int kOthers = 3;  // the thread that arranges elements, and some to spare
  Threads threads{options.threads > 0 ? options.threads : usable_cpus(),
                  options.io_threads > 0 ? options.io_threads : kUsualReaders};
  const int wanted = threads.compute + threads.waiting + kOthers;
  const int found = startable_threads(wanted);
  if (found == wanted) return threads;
  const std::string what =
      "only " + std::to_string(found) +
      " threads can be started (RLIMIT_NPROC, RLIMIT_AS or the container's pids.max)";
  if (found < kOthers + 2) {
    throw Error(ErrorCode::resource_exhausted,
                what + ", and a run takes " + std::to_string(kOthers + 2));
  }
  threads.compute = std::min(threads.compute, found - kOthers - 1);
  threads.waiting = std::min(threads.waiting, found - kOthers - threads.compute);
  log_once(LogLevel::warning, "threads",
           what + ": computing with " + std::to_string(threads.compute) + ", waiting with up to " +
               std::to_string(threads.waiting));
  return threads;
}

}  // namespace

Run::Run(Plan plan, const RunOptions& options, const RunSetting& setting, OpenWorkers* open_workers)
    : plan_(std::move(plan)),
      options_(options),
      setting_(setting),
      threads_(threads_for(options).compute),
      memory_(std::make_shared<Memory>(plan_.memory_limit(), Allocator::heap())),
      activity_(
          threads_, [this] { lose_count(); }, setting.holder) {
  plan_.check_memory();
  if (step_back_.alone()) memory_->be_exact();
  int most = threads_for(options).waiting;
  if (options.io_threads == 0 && most == kUsualReaders) {
    most = std::clamp(kReadersEach * threads_, kReadersEach, kMostThreads);  // tried when needed
  }
  blocking_ = std::make_unique<BlockingPool>(options.io_threads > 0 ? most : 1, most, tuning_);
  workers_ = std::make_unique<Workers>(threads_, options.threads == 0,
                                       activity_.consumers_waiting(), tuning_);
  if (!options_.workers.addresses.empty() && open_workers != nullptr) remote_ = open_workers(*this);
}

Run::~Run() {
  cancel();
  remote_.reset();
  blocking_.reset();
  workers_.reset();
  write_down();
}

SegmentPtr Run::open(std::uint64_t epoch, bool first_counted) {
  OpenContext context{stages_, epoch};
  context.first_counted = first_counted;
  OrderIteratorPtr top = plan_.root()->open(context);
  if (top->segment() == nullptr) {
    top = stages_.values(*plan_.root(), std::move(top), context, true);
  }
  SegmentPtr segment(top->segment());
  (void)top.release();
  return segment;
}

void Run::cancel() noexcept {
  stop();
  segments_.wake();
}

void Run::stop() noexcept {
  cancelled_.store(true, std::memory_order_release);
  retry_.stop();
  waker_->notify();
  memory_->wake();
}

// Threads that wait within a pull are not woken, since this may be called under the lock of one.
// They check by themselves ten times a second.
void Run::lose_count() noexcept {
  lost_count_.store(true, std::memory_order_release);
  stop();
}

Error Run::why_stopped() const {
  if (lost_count_.load(std::memory_order_acquire)) {
    return {ErrorCode::internal,
            "the engine lost count of its work, so the run was ended: a defect of Penstock"};
  }
  return {ErrorCode::cancelled, "the run was cancelled"};
}

void Run::submit(std::function<void()> work, bool may_wait) {
  if (may_wait) {
    blocking_->submit(std::move(work));
  } else {
    workers_->submit(std::move(work));
  }
}

void Run::look() {
  workers_->look();
  blocking_->look();
}

bool Run::wait_for_memory(QuietTimer& timer) {
  const Resting resting;
  const std::uint64_t seen = memory_->releases();
  const Counted waits = activity_.waits_for_memory();
  memory_->wait_for_release(seen, activity_.moment_ms());
  if (!timer.seems_over(activity_)) return true;
  const bool over = timer.over(activity_);
  if (!segments_.evict() && !slots_.drop_free(1) && !step_back_.ask(0))
    return !over || !step_back_.may_fail();
  timer.renew();
  return true;
}

}  // namespace penstock
