// The profiler's use of batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/iterator.h>

#include "tools/penstock/report/digest.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/digest_log.h"
#include "tools/penstock/run/dump.h"
#include "tools/penstock/run/profile.h"
#include "tools/penstock/run/progress.h"

namespace penstock::tool {

/// Takes every element of a run, measures the time, and does with each element what the options
/// say. Used by one thread; any thread may call `delivered` and `stop`.
class Consumer {
 public:
  /// `start`: the progress from which the run resumes. For a new run it has only the run's seed.
  /// Throws Error{unavailable} if an output can't be opened. Throws Error{data_loss} if the output
  /// is not the one that `start` belongs to.
  Consumer(const ProfileOptions& options, double step_ms, std::uint64_t batch_limit,
           Progress start);

  /// Consumes the run until its end, an error, or a limit. Fills in the report's counts and times.
  void consume(Iterator& iterator, Report& report);
  /// Ends the simulated step early. Any thread may call it.
  void stop() noexcept { stopped_.store(true, std::memory_order_release); }
  std::uint64_t delivered() const noexcept { return delivered_.load(std::memory_order_relaxed); }

 private:
  void take(const Element& element, Report& report);
  void resume();
  void audit(const Iterator& iterator, Report& report);
  void save(Iterator& iterator, Report& report);
  void step() const;

  const ProfileOptions& options_;
  const double step_s_;
  const std::uint64_t batch_limit_;
  std::unique_ptr<Digest> digest_;
  std::unique_ptr<Digest> epoch_digest_;
  std::optional<DigestLog> digests_;
  std::unique_ptr<Dump> dump_;
  Progress progress_;
  std::atomic<std::uint64_t> delivered_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace penstock::tool
