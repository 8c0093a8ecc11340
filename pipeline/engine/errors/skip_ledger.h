// The count of a run's errors, and the error budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/iterator.h>
#include <penstock/stats.h>

#include "pipeline/engine/errors/quarantine.h"
#include "pipeline/stage/counters.h"

namespace penstock {

/// The errors that `skip` skipped, and their limits. The share of errors is judged for each
/// stage by itself, so that it does not depend on how far ahead each stage is.
class SkipLedger {
 public:
  explicit SkipLedger(const RunOptions& options)
      : options_(options),
        quarantine_(options.on_error == OnError::skip ? options.quarantine : "") {}
  /// The stage and epoch to which elements belong.
  struct Account {
    StageCounters* stage = nullptr;  ///< identifies the stage
    std::uint64_t key = 0;           ///< identifies the epoch
    bool counted = true;             ///< OpenContext::counted
  };
  /// Counts `reached` more elements, the last of which is bad. Returns the error that ends the run
  /// if the budget is now exceeded; otherwise ok.
  Status add(const Account& account, std::uint64_t reached, const Error& error) EXCLUDES(mutex_);
  /// Writes the bad elements counted so far to the quarantine. Call it without a lock.
  void write_down() noexcept { quarantine_.write(); }
  /// Judges the elements up to the end of the epoch with this key, whose good ones are all counted.
  /// Returns the error that ends the run if more than half of a stage's were bad and the options
  /// set no limit; otherwise ok.
  Status judge(std::uint64_t key) EXCLUDES(mutex_);
  /// Returns the same error without ending the run.
  Status verdict(std::uint64_t key) const EXCLUDES(mutex_);
  /// Counts good elements after the last bad one.
  void pass(const Account& account, std::uint64_t good) EXCLUDES(mutex_);
  void surfaced(const Error& error) EXCLUDES(mutex_);
  /// Counts an error that the stage left out. It ends no run by itself.
  void leave_out(const Account& account, const Error& error) EXCLUDES(mutex_);
  /// Ends the run with this error as soon as a stage counts it.
  void end(const Error& error) EXCLUDES(mutex_);
  /// True if the run ends with this error, which it has reached.
  bool ends_with(const Error& error) const EXCLUDES(mutex_);
  ErrorStats stats() const EXCLUDES(mutex_);
  /// Returns what was counted in the epoch with this key.
  Passed in_epoch(std::uint64_t key) const EXCLUDES(mutex_);
  /// Moves to the epoch with this key: all other counts become those of earlier epochs. Returns how
  /// many errors these contain.
  std::uint64_t begin(std::uint64_t key) EXCLUDES(mutex_);
  /// Returns the counts of a stage in earlier epochs, plus those of the epoch with this key, if
  /// any.
  Passed before(const StageCounters* stage, std::optional<std::uint64_t> key) const
      EXCLUDES(mutex_);
  /// Restore, from the saved run: its errors, and the counts of a stage in the epochs before the
  /// one in which it stopped.
  void restore(std::uint64_t errors) EXCLUDES(mutex_);
  void restore(const StageCounters* stage, Passed passed) EXCLUDES(mutex_);
  /// Restores the counts of that last epoch, which the stage's own state holds.
  void restore(const Account& account, Passed passed) EXCLUDES(mutex_);
  /// Forgets all counts since `begin`: the epoch is opened anew and restored.
  void step_back() EXCLUDES(mutex_);

 private:
  /// Adds to the counts of a stage. Returns its total.
  Passed charge(const Account& account, Passed more) REQUIRES(mutex_);
  void count(const Error& error) REQUIRES(mutex_);
  bool is_on_its_way(const Error& error) const REQUIRES(mutex_);
  void end_with(const Error& error) REQUIRES(mutex_);
  Status mostly_bad(std::uint64_t key) const REQUIRES(mutex_);

  const RunOptions& options_;
  Quarantine quarantine_;
  mutable Mutex mutex_;
  // After a step back, the first errors are those from before until more are counted.
  ErrorStats errors_ GUARDED_BY(mutex_);
  // The counts of stages: of earlier epochs, and since then by the epoch's key.
  std::map<const StageCounters*, Passed> before_ GUARDED_BY(mutex_);
  std::map<std::pair<std::uint64_t, const StageCounters*>, Passed> since_ GUARDED_BY(mutex_);
  Status over_ GUARDED_BY(mutex_);             // the error with which the run ends
  std::uint64_t ends_ GUARDED_BY(mutex_) = 0;  // errors counted for that since the last step back
};

}  // namespace penstock
