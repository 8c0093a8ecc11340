// What the profiler does with batches.
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

/// Takes every element of a run, accounts for the time and does what was asked with each. Used by
/// one thread; `delivered` and `stop` by any.
class Consumer {
 public:
  /// `start`: where the run goes on; as the run's seed, but otherwise empty for one that begins.
  /// Throws Error{unavailable} if an output can't be opened, Error{data_loss} if it is not the one
  /// that `start` goes on with.
  Consumer(const ProfileOptions& options, double step_ms, std::uint64_t batch_limit,
           Progress start);

  /// Until the end, an error, or a limit. Fills in the report's counts and times.
  void consume(Iterator& iterator, Report& report);
  /// The simulated step ends early; any thread.
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
