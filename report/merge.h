// One verdict over the reports of several ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/rank_report.h"

namespace penstock {

/// The verdict over all ranks. Every rank of synchronous training waits for the slowest one.
struct MergedReport {
  enum class Limit { ranks, all, devices };

  std::vector<RankReport> ranks;  ///< in the order of their ranks
  std::vector<int> missing{};     ///< ranks of the job without a report
  Limit limit = Limit::devices;
  /// Indices of the ranks that hold up the others, the worst first. If `limit` is `all`, these are
  /// all ranks, and the first one stands for most of them.
  std::vector<std::size_t> worst{};
  bool slow_steps = false;  ///< the worst ranks are found by how long the others wait for them
  std::string text{};       ///< one sentence
};

/// Decides which ranks hold up the others:
///
/// - If every rank stalls for less than 5 % of its time, the devices are the limit.
///
/// - If some of these wait for other ranks for 10 % of their time, those that wait for less than
///   half as long hold them up. Such waits are in the exchange of gradients.
///
/// - Otherwise the ranks with the most stalls hold up the others, unless all stall alike.
///
/// - If all stall alike, a rank that makes far fewer steps a second holds up the others. This is so
///   only for ranks that do not wait for each other.
///
/// Throws Error{invalid_argument} for fewer than two reports, for two of one rank, and for reports
/// of jobs with different numbers of ranks.
///
///     merge(reports).text   // "Rank 2 holds up the others: it waited 94% of the time for tar[0]…"
MergedReport merge(std::vector<RankReport> ranks);

/// Returns text such as "the report of rank 1 is missing"; empty if none is.
std::string missing_text(const MergedReport& report);
/// Returns the verdict, the worst rank's own verdict, and a table with a line for each rank.
std::string merged_text(const MergedReport& report, bool colour, int width);
/// Returns the fields of `merged` in docs/report.schema.json.
std::string merged_json(const MergedReport& report);

}  // namespace penstock
