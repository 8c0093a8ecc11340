// All facts about a run, from which reports are written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/feed.h>
#include <penstock/image_codec.h>
#include <penstock/process.h>
#include <penstock/remote_files.h>
#include <penstock/report.h>
#include <penstock/stats.h>

#include "pipeline/core/shard_times.h"

namespace penstock {

/// The ways in which a run can end.
enum class Ending { running, finished, batch_limit, interrupted, failed, no_progress, device_lost };
std::string_view name_of(Ending ending) noexcept;

/// An epoch that was delivered to its end.
struct EpochAudit {
  EpochStats counts;
  std::optional<std::uint64_t> digest;
};

/// A run from its beginning until now, or to its end.
struct RunReport {
  Ending ending = Ending::finished;
  bool of_program = false;   ///< remedies name flags of `penstock profile` instead of fields
  bool of_training = false;  ///< remedies name settings of `penstock train`
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  std::uint64_t epochs = 0;  ///< begun
  double build_s = 0;        ///< opening the source and building the graph
  double wall_s = 0;         ///< from the start of the run to its end
  double first_batch_s = 0;  ///< until the first batch was ready
  double wait_s = 0;         ///< of wall_s, spent in `next`
  double digest_s = 0;       ///< of wall_s, spent on digests and dumps
  double step_s = 0;         ///< of wall_s, spent in the simulated step
  double cpu_s = 0;          ///< of all threads, during wall_s
  CpuTimes starved;          ///< what kept threads from a CPU, during wall_s
  std::uint64_t rss_peak_bytes = 0;
  int cpus = 1;  ///< the number that the process may use
  std::uint64_t seed = 0;
  std::string io;  ///< empty: not known
  /// The flags that decode the images of which the run read only the bytes; empty: none.
  std::string undecoded;
  std::string version;  ///< of Penstock
  std::string jpeg_backend;
  std::string simd;  ///< the instruction set that the process uses: "AVX2"
  DecodingCounts decoding;
  std::optional<std::uint64_t> digest;
  std::optional<double> step_ms;
  /// Delivered by earlier processes, if the run resumed from a state.
  std::optional<std::uint64_t> resumed_batches;
  std::uint64_t resumed_elements = 0;
  std::string guarantee;  ///< of a run that stops and resumes: "EXACT"
  std::vector<EpochAudit> audit;
  std::uint64_t state_bytes = 0;  ///< size of the largest saved position
  Stats stats;
  /// The process's requests to servers of data; nothing if there were none.
  std::optional<RemoteStats> remote;
  std::optional<SlowShard> slow_shard{};  ///< among all files that the process read slowly
  std::vector<TowerStats> towers;         ///< empty if no devices were given
  FeedVerdict feed;                       ///< of the towers
  int device_slots = 0;                   ///< of each tower, as requested
  std::uint64_t slot_bytes = 0;           ///< of one batch on the host; 0: not known
  int slots_wanted = 4;          ///< batches on the host with which no thread waits for a slot
  std::uint64_t lost = 0;        ///< elements that no tower received, see FeedStats
  std::uint64_t wrapped = 0;     ///< see FeedStats
  std::optional<Error> failure;  ///< the error that ended the run

  double elements_per_second() const noexcept {
    return wall_s > 0 ? static_cast<double>(elements) / wall_s : 0;
  }
  /// The share of the time after the first batch in which the consumer waited.
  double stall_share() const noexcept;
};

/// True for a run of less than 100 ms or 100 elements, whose figures are those of its start.
bool too_short(const RunReport& report) noexcept;
/// Returns the limit of the run and a remedy. A run that is too short gets none.
Verdict verdict(const RunReport& report);

/// Returns a line for each stage that pads, such as "batch[1]: 25% of its bytes are padding".
std::vector<std::string> padding_lines(const RunReport& report);

/// Returns the verdict, a summary, a table with a line for each stage and each tower, and the first
/// errors.
std::string report_text(const RunReport& report, bool colour, int width);

/// Returns the fields of `run` in docs/report.schema.json. `pipeline_toml`: the pipeline as
/// TOML; empty: not known.
std::string report_json(const RunReport& report, const std::string& pipeline_toml = {});

/// Describes the activity and the waits of each stage, for a run that makes no progress.
std::string still_picture(const Stats& stats, double still_s);

}  // namespace penstock
