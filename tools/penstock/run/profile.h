// Runs a pipeline and measures it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>
#include <penstock/feed.h>

#include "pipelines/pipeline_spec.h"
#include "tools/penstock/report/report.h"
#include "tools/penstock/run/progress.h"
#include "tools/penstock/support/interrupts.h"

namespace penstock::tool {

struct ProfileOptions {
  std::uint64_t seed = 0;          ///< unless the spec has one
  bool digest = false;             ///< compute the digest of the run
  std::string digests_file;        ///< a line for each batch; empty: none
  std::string state_file;          ///< the file that keeps the position; empty: none
  StateFile* state = nullptr;      ///< that file, locked for this run
  std::uint64_t save_every = 100;  ///< batches
  /// Used if there is no state file yet: the state files of all consumers of a run that resumes
  /// with a different number of consumers.
  std::vector<std::string> resume_from;
  std::uint64_t dump_count = 0;  ///< images to write…
  std::string dump_folder;       ///< …to here
  double limit_s = 0;            ///< positive: stop after this long
  double watchdog_s = 0;         ///< positive: give up after this long without a batch
  bool quiet = false;            ///< no live view
  std::string devices;           ///< a tower for each; empty: no towers
  FeedOptions feed{};            ///< for the towers; its `run` is unused
};

/// Returns the source in a few words, such as "tar train-0.tar and 3 more".
std::string title_of(const PipelineSpec& spec);

/// Returns a report with the facts that are known before anything runs.
Report report_of(const PipelineSpec& spec);
/// Adds the facts that the pipeline shows.
void note_dataset(Report& report, const PipelineSpec& spec, const Dataset& dataset);
/// Returns the progress from which the run begins: that of the state file, if there is one. Throws
/// UsageError if the seed differs from that of the state.
Progress start_of(const ProfileOptions& options, const PipelineSpec& spec, std::uint64_t seed);
/// Returns the options of the run. The end of a profile waits no longer than a second for reads
/// that retry or hang: nothing uses their memory afterwards.
RunOptions profile_options(const PipelineSpec& spec, const ProfileOptions& options);
/// Fills in the resources that the process has used since `before`, and its counts of decoded
/// images.
void note_process(Report& report, const CpuTimes& before);

/// Runs the spec once. After Ending::no_progress, threads of the run may still wait, so leave by
/// _exit. A failed run gives a report, too, with the figures up to the failure. Throws the errors
/// of `build` and `Dataset::iterate`, and Error{unavailable} if an output can't be written.
Report run_profile(const PipelineSpec& spec, const ProfileOptions& options, Interrupts& interrupts);

}  // namespace penstock::tool
