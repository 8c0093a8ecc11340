// Feeds simulated towers and measures them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include <penstock/feed.h>
#include <penstock/image.h>
#include <penstock/internal/thread_annotations.h>

#include "pipelines/pipeline_spec.h"
#include "tools/penstock/report/digest.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/profile.h"
#include "tools/penstock/support/interrupts.h"

namespace penstock::tool {

/// The work of each tower on its batches.
struct TowerSteps {
  std::int64_t step_ns = 0;             ///< the time for which its stream is kept busy
  std::uint64_t batch_limit = 0;        ///< of all towers together; 0: none
  double limit_s = 0;                   ///< 0: none
  std::uint64_t save_every = 0;         ///< batches; 0: never
  std::function<void()> save{};         ///< called by a tower's thread, one call at a time
  Spec batches{};                       ///< the spec of the dataset
  std::optional<ImageOps> on_device{};  ///< the ops that the dataset leaves to the towers' devices
  Digest* digest = nullptr;             ///< of all delivered batches; only with a single tower
  bool sharded = false;                 ///< each tower has an input of its own
};

/// Takes batches until the end, an error or a limit, with one thread for each tower. Used once; any
/// thread may call `stop` and `delivered`.
class Towers {
 public:
  Towers(Feed& feed, TowerSteps steps) : feed_(feed), steps_(std::move(steps)) {}

  /// Runs, and fills in the report's counts, times, towers and ending.
  void run(Report& report);
  void stop() noexcept { stopped_.store(true, std::memory_order_release); }
  std::uint64_t delivered() const noexcept { return delivered_.load(std::memory_order_relaxed); }
  std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }

 private:
  void step(int tower) EXCLUDES(saving_);
  bool over() const;
  void audit(const Stats& run, Report& report) const;

  Feed& feed_;
  const TowerSteps steps_;
  std::int64_t start_ns_ = 0;
  std::uint64_t ended_before_ = 0;  // epochs that earlier runs ended
  std::atomic<bool> stopped_{false};
  std::atomic<std::int64_t> first_ns_{0};  // when the first batch was ready
  std::atomic<std::uint64_t> delivered_{0};
  std::atomic<std::uint64_t> epoch_{0};
  SlowMutex saving_;  // held while the state is saved
};

/// Runs the spec on the towers that the options name. After Ending::no_progress, threads of the run
/// may still wait, so leave by _exit. Throws the errors of `run_profile`, and Error{not_found} for
/// an unknown device.
Report run_towers(const PipelineSpec& spec, const ProfileOptions& options, Interrupts& interrupts);

}  // namespace penstock::tool
