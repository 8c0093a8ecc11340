// What a profiled run was like.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/feed.h>
#include <penstock/image_codec.h>
#include <penstock/stats.h>

#include "tools/penstock/report/meter.h"
#include "tools/penstock/support/process.h"

namespace penstock::tool {

/// How a run ended.
enum class Ending { finished, batch_limit, interrupted, failed, no_progress, device_lost };
std::string_view name_of(Ending ending) noexcept;

/// An epoch that was delivered to its end.
struct EpochAudit {
  EpochStats counts;
  std::optional<std::uint64_t> digest;
};

struct Report {
  Ending ending = Ending::finished;
  std::uint64_t elements = 0;
  std::uint64_t batches = 0;
  std::uint64_t epochs = 0;  ///< begun
  double build_s = 0;        ///< opening the source and building the graph
  double wall_s = 0;         ///< from the start of the run to its end
  double first_batch_s = 0;  ///< until the first batch was there
  double wait_s = 0;         ///< of wall_s, spent in `next`
  double digest_s = 0;       ///< of wall_s, spent on digests and dumps
  double step_s = 0;         ///< of wall_s, spent in the simulated step
  double cpu_s = 0;          ///< of all threads, during wall_s
  CpuTimes starved;          ///< what kept threads from a CPU, during wall_s
  std::uint64_t rss_peak_bytes = 0;
  int cpus = 1;  ///< the process may use
  std::uint64_t seed = 0;
  std::string io;
  std::string version;  ///< of Penstock
  std::string jpeg_backend;
  DecodingCounts decoding;
  std::optional<std::uint64_t> digest;
  std::optional<double> step_ms;
  /// Delivered by earlier processes, where the run went on from a state.
  std::optional<std::uint64_t> resumed_batches;
  std::uint64_t resumed_elements = 0;
  std::string guarantee;  ///< of a run that is stopped and goes on: "EXACT"
  std::vector<EpochAudit> audit;
  std::uint64_t state_bytes = 0;  ///< the largest position that was saved
  Stats stats;
  std::vector<TowerStats> towers;  ///< empty unless devices were named
  FeedVerdict feed;                ///< of the towers
  int device_slots = 0;            ///< of each tower, as asked for
  std::uint64_t slot_bytes = 0;    ///< of one batch on the host; 0: not known
  int slots_wanted = 4;            ///< batches on the host that leave nobody waiting for another
  std::uint64_t lost = 0;          ///< elements that the towers were not given, see FeedStats
  std::uint64_t wrapped = 0;       ///< see FeedStats
  std::vector<Timeline::Point> timeline;
  std::optional<Error> failure;  ///< what ended the run

  double elements_per_second() const noexcept {
    return wall_s > 0 ? static_cast<double>(elements) / wall_s : 0;
  }
  /// Share of the time after the first batch in which the consumer waited.
  double stall_share() const noexcept;
};

/// What limits a run, and what would help.
struct Verdict {
  std::string cause{};   ///< as of TowerStats::gains, or "step", "cpu", "hand-over"; empty: unknown
  std::string remedy{};  ///< what to do about it
  double gain_s = 0;     ///< of wall_s, that would be saved without the cause
  double rate_then = 0;  ///< elements a second without it; 0: not known
  double rate_half = 0;  ///< … with half as much of it; 0: not known
  std::string text{};    ///< one or a few sentences that say it
};
Verdict verdict(const Report& report);

/// Where devices were named: by the towers' gains.
Verdict towers_verdict(const Report& report);

/// A summary, a table with a line for each stage, the first errors and the verdict.
std::string report_text(const Report& report, bool colour, int width);

/// A page that needs nothing else: the summary, the stages, and how it went over time.
std::string report_html(const Report& report, const std::string& title);

/// Counters over time in the Trace Event Format (JSON), for chrome://tracing and Perfetto: threads
/// busy in each stage, elements a second, memory.
std::string report_trace(const Report& report);

/// What every stage does and waits for, for a run in which nothing moves.
std::string still_picture(const Stats& stats, double still_s);

/// The fields that docs/profile.md ("The JSON") lists.
std::string report_json(const Report& report, const std::string& pipeline_toml);

}  // namespace penstock::tool
