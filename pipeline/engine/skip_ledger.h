// What the errors of a run came to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include <penstock/error.h>
#include <penstock/iterator.h>
#include <penstock/stats.h>

#include "pipeline/core/thread_annotations.h"
#include "pipeline/engine/quarantine.h"
#include "pipeline/order/node.h"

namespace penstock {

/// Errors that `skip` passed over, and how many there may be.
class SkipLedger {
 public:
  explicit SkipLedger(const RunOptions& options)
      : options_(options),
        quarantine_(options.on_error == OnError::skip ? options.quarantine : "") {}
  /// Whose elements they are.
  struct Account {
    const Node& stage;
    std::uint64_t key = 0;  ///< of the epoch
    bool counted = true;    ///< OpenContext::counted
  };
  /// Counts `reached` more elements, and a bad one among all so far. The error to end the run with
  /// if that was one too many; else ok.
  Status add(const Account& account, std::uint64_t reached, const Error& error) EXCLUDES(mutex_);
  void surfaced(const Error& error) EXCLUDES(mutex_);
  /// Ends the run with this error where it comes next.
  void end(const Error& error) EXCLUDES(mutex_);
  ErrorStats stats() const EXCLUDES(mutex_);
  /// Bad elements passed over in the epoch with this key.
  std::uint64_t skipped(std::uint64_t key) const EXCLUDES(mutex_);
  /// Errors of the run that this one goes on from, those of the epoch it stopped in aside, and its
  /// good elements.
  void restore(std::uint64_t errors, std::uint64_t good) EXCLUDES(mutex_);
  /// Those of the epoch it stopped in, as each stage remembers them.
  void restore_skipped(const Account& account, std::uint64_t skipped) EXCLUDES(mutex_);

 private:
  static constexpr std::size_t kKept = 100;
  const RunOptions& options_;
  Quarantine quarantine_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> skipped_ GUARDED_BY(mutex_);  // by the epoch's key
  ErrorStats errors_ GUARDED_BY(mutex_);
  /// The share is judged stage by stage, so that it does not depend on who is how far ahead.
  struct Passed {
    std::uint64_t seen = 0;
    std::uint64_t bad = 0;
  };
  Passed before_ GUARDED_BY(mutex_);  // this run went on from another
  std::map<const Node*, Passed> stages_ GUARDED_BY(mutex_);
  Status over_ GUARDED_BY(mutex_);  // what the run ended with
};

}  // namespace penstock
