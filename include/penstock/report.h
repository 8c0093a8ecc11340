// Reports: a run's figures so far, and the cause that limits it.
#pragma once

#include <string>

#include <penstock/feed.h>
#include <penstock/iterator.h>

namespace penstock {

/// The cause that limits a run, and its remedy.
struct Verdict {
  /// As in TowerStats::gains, or "step", "cpu" or "hand-over"; empty: unknown.
  std::string cause{};
  std::string remedy{};  ///< advice on what to change
  double gain_s = 0;     ///< seconds of the run that would be saved without the cause
  /// Elements a second without the cause, of "hand-over" at least; 0: not known.
  double rate_then = 0;
  /// Elements a second with half as much of it; 0: not known.
  double rate_half = 0;
  std::string text{};  ///< the verdict in one or a few sentences
};

/// A report, as text and as JSON.
struct Report {
  Verdict verdict;  ///< the cause that limits the run
  /// The verdict, a summary, and tables of stages and towers, in 100 columns.
  std::string text;
  /// An object with the fields of `run` in docs/report.schema.json.
  std::string json;
};

/// Returns the report of a run from its beginning until now, at any moment of it or after its end.
/// Figures of CPU time and of decoding are those of the whole process. Takes about a millisecond;
/// any thread may call it. PENSTOCK_REPORT makes a program write the same without a change to it:
/// docs/metrics.md.
///
///     std::puts(ps::report(feed).text.c_str());   // "Copies to cuda:0 limit the run: one takes …"
Report report(const Iterator& run);
/// Returns the report of a feed and its towers.
Report report(const Feed& feed);

/// Makes the signal, such as SIGTERM, write the files that PENSTOCK_REPORT and PENSTOCK_TRACE ask
/// for, before it ends the process as it would have done. Without this they are written when a run
/// ends, and at a normal end of the process. It takes effect when the first run begins. The first
/// signal restores the default action, so a second one ends the process at once. Returns false, and
/// does nothing, if the environment asks for no file, or if the signal's action is not the default
/// one. Throws Error{invalid_argument} for signals other than SIGHUP, SIGINT, SIGQUIT, SIGTERM,
/// SIGUSR2 and SIGXCPU. In a child of `fork` the signal has its default action. Thread-safe.
bool report_at_signal(int signal);

/// Sets the rank of this process in its job, and the number of ranks (0: not known), for reports
/// and metrics. Without it they take the rank from the launcher's variables (docs/metrics.md).
/// `towers::join` calls it. Call it before the first run, because a path with `%r` is made then.
/// Thread-safe.
void set_report_rank(int rank, int ranks) noexcept;
/// Sets the seconds, since the process began, in which its towers only waited for other ranks: the
/// exposed part of the exchange of gradients. Reports of PENSTOCK_REPORT hold them, so that `report
/// merge` finds the rank that the others wait for. The trainer calls it. Thread-safe.
void set_report_exposed(double seconds) noexcept;

}  // namespace penstock
