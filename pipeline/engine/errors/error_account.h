// One stage's part in the error budget.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "pipeline/engine/errors/skip_ledger.h"
#include "pipeline/stage/closed_counts.h"

namespace penstock {

/// The elements of one stage in one epoch, as the ledger counts them. Not synchronised. The ledger
/// must outlive it. At its end it leaves the counts to the stage that closed it, if any.
class ErrorAccount {
 public:
  /// If `skips` is true, elements that fail are skipped.
  ErrorAccount(SkipLedger& ledger, SkipLedger::Account account, bool skips,
               std::shared_ptr<ClosedCounts> closed = nullptr)
      : ledger_(ledger),
        account_(account),
        skips_(skips),
        closed_(skips && account.counted ? std::move(closed) : nullptr) {}
  ~ErrorAccount() {
    if (closed_) closed_->add(*account_.stage, passed_);
  }
  ErrorAccount(ErrorAccount&& other) noexcept = default;
  ErrorAccount& operator=(ErrorAccount&& other) = delete;

  bool skips() const noexcept { return skips_; }
  StageCounters& counters() const noexcept { return *account_.stage; }
  /// Counts `reached` more elements, the last of which failed. Returns the error that ends the run
  /// if the error budget is now exceeded, otherwise ok.
  Status skip(std::uint64_t reached, const Error& error) {
    passed_ += {reached, 1};
    return ledger_.add(account_, reached, error);
  }
  /// Counts `good` more elements that did not fail.
  void pass(std::uint64_t good) {
    passed_ += {good, 0};
    ledger_.pass(account_, good);
  }
  /// Continues from the counts of a saved run.
  void restore(Passed passed) {
    passed_ += passed;
    ledger_.restore(account_, passed);
  }

 private:
  SkipLedger& ledger_;
  SkipLedger::Account account_;
  bool skips_;
  std::shared_ptr<ClosedCounts> closed_;
  Passed passed_;
};

}  // namespace penstock
