// What a stage's errors count for.
#pragma once

#include <cstdint>

#include "pipeline/engine/skip_ledger.h"

namespace penstock {

/// The elements of one stage in one epoch, as the ledger sees them. Not synchronised; the ledger
/// outlives it.
class ErrorAccount {
 public:
  /// With `skips` elements that fail are passed over.
  ErrorAccount(SkipLedger& ledger, SkipLedger::Account account, bool skips)
      : ledger_(ledger), account_(account), skips_(skips) {}

  bool skips() const noexcept { return skips_; }
  StageCounters& counters() const noexcept { return *account_.stage; }
  /// `reached` more elements have had their turn, the last of which failed. The error to end the
  /// run with if that was one too many; else ok.
  Status pass_over(std::uint64_t reached, const Error& error) {
    return ledger_.add(account_, reached, error);
  }
  /// So many more had their turn, and were good.
  void pass(std::uint64_t good) { ledger_.pass(account_, good); }
  /// Goes on from where a saved run stood.
  void restore(Passed passed) { ledger_.restore(account_, passed); }

 private:
  SkipLedger& ledger_;
  SkipLedger::Account account_;
  bool skips_;
};

}  // namespace penstock
