// What the errors of a run came to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include <penstock/error.h>
#include <penstock/iterator.h>
#include <penstock/stats.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/quarantine.h"
#include "pipeline/order/node.h"

namespace penstock {

/// Elements of a stage whose turn has come.
struct Passed {
  std::uint64_t seen = 0;
  std::uint64_t bad = 0;  ///< of those

  Passed& operator+=(const Passed& more) noexcept {
    seen += more.seen;
    bad += more.bad;
    return *this;
  }
};

/// Errors that `skip` passed over, and how many there may be. The share is judged stage by stage,
/// so that it does not depend on who is how far ahead.
class SkipLedger {
 public:
  explicit SkipLedger(const RunOptions& options)
      : options_(options),
        quarantine_(options.on_error == OnError::skip ? options.quarantine : "") {}
  /// Whose elements they are.
  struct Account {
    StageCounters* stage = nullptr;  ///< which tells stages apart
    std::uint64_t key = 0;           ///< of the epoch
    bool counted = true;             ///< OpenContext::counted
  };
  /// Counts `reached` more elements, and a bad one among all so far. The error to end the run with
  /// if that was one too many; else ok.
  Status add(const Account& account, std::uint64_t reached, const Error& error) EXCLUDES(mutex_);
  /// Counts elements that were good, behind the last that was bad.
  void pass(const Account& account, std::uint64_t good) EXCLUDES(mutex_);
  void surfaced(const Error& error) EXCLUDES(mutex_);
  /// Ends the run with this error where it comes next.
  void end(const Error& error) EXCLUDES(mutex_);
  ErrorStats stats() const EXCLUDES(mutex_);
  /// Bad elements passed over in the epoch with this key.
  std::uint64_t skipped(std::uint64_t key) const EXCLUDES(mutex_);
  /// Goes on to the epoch with this key: what was passed until now is of epochs before. Returns the
  /// bad ones that were not yet.
  std::uint64_t begin(std::uint64_t key) EXCLUDES(mutex_);
  /// What a stage has passed in the epochs before, and in the one with this key, if any.
  Passed before(const StageCounters* stage, std::optional<std::uint64_t> key) const
      EXCLUDES(mutex_);
  /// Of the run that this one goes on from: its errors and what a stage had passed, in the epochs
  /// before the one in which it stopped…
  void restore(std::uint64_t errors) EXCLUDES(mutex_);
  void restore(const StageCounters* stage, Passed passed) EXCLUDES(mutex_);
  /// …and in that, as the stage's own state says.
  void restore(const Account& account, Passed passed) EXCLUDES(mutex_);
  /// Forgets what stages have passed since `begin`: the epoch is opened anew, and restored.
  void step_back() EXCLUDES(mutex_);

 private:
  /// Returns what the stage has passed in all.
  Passed charge(const Account& account, Passed more) REQUIRES(mutex_);

  static constexpr std::size_t kKept = 100;
  const RunOptions& options_;
  Quarantine quarantine_;
  mutable Mutex mutex_;
  ErrorStats errors_ GUARDED_BY(mutex_);
  // What stages have passed: in epochs before, and since by the epoch's key.
  std::map<const StageCounters*, Passed> before_ GUARDED_BY(mutex_);
  std::map<std::pair<std::uint64_t, const StageCounters*>, Passed> since_ GUARDED_BY(mutex_);
  Status over_ GUARDED_BY(mutex_);  // what the run ended with
};

}  // namespace penstock
