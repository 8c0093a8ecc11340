// One stage's part in the error budget.
#pragma once

#include <cstdint>

#include "pipeline/engine/errors/skip_ledger.h"

namespace penstock {

/// The elements of one stage in one epoch, as the ledger counts them. Not synchronised. The ledger
/// must outlive it.
class ErrorAccount {
 public:
  /// If `skips` is true, elements that fail are skipped.
  ErrorAccount(SkipLedger& ledger, SkipLedger::Account account, bool skips)
      : ledger_(ledger), account_(account), skips_(skips) {}

  bool skips() const noexcept { return skips_; }
  StageCounters& counters() const noexcept { return *account_.stage; }
  /// Counts `reached` more elements, the last of which failed. Returns the error that ends the run
  /// if the error budget is now exceeded, otherwise ok.
  Status skip(std::uint64_t reached, const Error& error) {
    return ledger_.add(account_, reached, error);
  }
  /// Counts `good` more elements that did not fail.
  void pass(std::uint64_t good) { ledger_.pass(account_, good); }
  /// Continues from the counts of a saved run.
  void restore(Passed passed) { ledger_.restore(account_, passed); }

 private:
  SkipLedger& ledger_;
  SkipLedger::Account account_;
  bool skips_;
};

}  // namespace penstock
