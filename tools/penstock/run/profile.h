// Runs a pipeline and measures it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/feed.h>

#include "tools/penstock/graph/pipeline_spec.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/progress.h"
#include "tools/penstock/support/interrupts.h"

namespace penstock::tool {

struct ProfileOptions {
  std::uint64_t seed = 0;          ///< unless the spec has one
  bool digest = false;             ///< of everything
  std::string digests_file;        ///< a line for each batch; empty: none
  std::string state_file;          ///< where the position is kept; empty: nowhere
  StateFile* state = nullptr;      ///< that file, locked for this run
  std::uint64_t save_every = 100;  ///< batches
  /// Where there is no state file yet: those of all consumers of a run that goes on with another
  /// number of them.
  std::vector<std::string> resume_from;
  std::uint64_t dump_count = 0;  ///< images to write…
  std::string dump_folder;       ///< …to here
  double limit_s = 0;            ///< positive: stop after this long
  double watchdog_s = 0;         ///< positive: give up after this long without a batch
  bool quiet = false;            ///< no live view
  std::string devices;           ///< a tower for each; empty: no towers
  FeedOptions feed{};            ///< of the towers; without `run`
};

/// "tar train-0.tar and 3 more": the source in a few words.
std::string title_of(const PipelineSpec& spec);

/// A report with what is known before anything runs.
Report report_of(const PipelineSpec& spec);
/// Where the run begins: at what the state file says, if there is one. Throws UsageError for a seed
/// that is not the state's.
Progress start_of(const ProfileOptions& options, const PipelineSpec& spec, std::uint64_t seed);
/// Fills in how large its batches are.
void note_batches(Report& report, const Dataset& dataset, const RunOptions& run);
/// Fills in what the process has used, since `before`, and decoded.
void note_process(Report& report, const CpuTimes& before);

/// Runs the spec once. After Ending::no_progress threads of the run may still wait: leave by _exit.
/// A failed run is a report too, with what was measured until then. Throws what
/// `build` and `Dataset::iterate` throw, and Error{unavailable} for output that can't be written.
Report run_profile(const PipelineSpec& spec, const ProfileOptions& options, Interrupts& interrupts);

}  // namespace penstock::tool
