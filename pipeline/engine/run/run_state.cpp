#include "pipeline/engine/run/run_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/log.h>

#include "pipeline/core/machine.h"

namespace penstock {
namespace {

constexpr int kUsualReaders = 64;
constexpr int kReadersEach = 128;  // for each thread that computes

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

}  // namespace

RunState::RunState(Plan plan, const RunOptions& options, const RunSetting& setting)
    : plan_(std::move(plan)),
      options_(options),
      share_(setting.share),
      control_(setting.control),
      threads_(threads_for(options)) {
  plan_.check_memory();
}

// Returns the requested numbers of threads, limited to those that the system lets this process
// start. They are started when they are needed, so the limit leaves room for the threads that
// arrange elements.
RunState::Threads RunState::threads_for(const RunOptions& options) {
  check(options);
  constexpr int kOthers = 3;  // the thread that arranges elements, and some to spare
  Threads threads{options.threads > 0 ? options.threads : usable_cpus(),
                  options.io_threads > 0 ? options.io_threads : kUsualReaders};
  const int wanted = threads.compute + threads.waiting + kOthers;
  const int found = startable_threads(wanted);
  if (found == wanted) {
    // More readers are tried when they are needed.
    if (options.io_threads == 0)
      threads.waiting = std::clamp(kReadersEach * threads.compute, kReadersEach, kMostThreads);
    return threads;
  }
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

Error RunState::why_stopped() const {
  if (lost_count_.load(std::memory_order_acquire)) {
    return {ErrorCode::internal,
            "the engine lost count of its work, so the run was ended: this is a bug in Penstock"};
  }
  return {ErrorCode::cancelled, "the run was cancelled"};
}

}  // namespace penstock
