// The figures of one rank, from its report.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// The figures of one rank, from the JSON that PENSTOCK_REPORT writes.
struct RankReport {
  std::string file{};  ///< names the report in errors
  int rank = 0;
  int ranks = 0;       ///< of the job; 0: not known
  std::string host{};  ///< empty: not known
  double elements_per_s = 0;
  double steps_per_s = 0;  ///< of one tower, after the first batch
  /// Share of the time in which a tower waited for its own process; of the tower that waited most.
  /// Without towers, the consumer's share.
  double stall_share = 0;
  /// Share of the time in which the towers only waited for other ranks; negative: not known.
  double exposed_share = -1;
  std::string cause{};   ///< as Verdict::cause; if that is empty, the main cause of the stalls
  std::string stage{};   ///< the stage that `cause` means; empty: none
  std::string shard{};   ///< the shard of a source that is slow; empty: none is known
  std::string text{};    ///< the rank's own verdict
  std::string remedy{};  ///< of that verdict
};

/// Returns the figures of the longest feed in a report or, without feeds, of the longest run.
/// Throws Error{invalid_argument} that names the file if it is no report of this version.
RankReport parse_rank_report(const std::string& file, std::string_view text);

}  // namespace penstock
