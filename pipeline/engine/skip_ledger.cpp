#include "pipeline/engine/skip_ledger.h"

#include <string>

namespace penstock {

Status SkipLedger::add(const Account& account, std::uint64_t reached, const Error& error) {
  quarantine_.add(error);
  MutexLock lock(mutex_);
  if (!over_.ok()) return over_;  // the same error on its way through the next stage
  if (!account.counted) return {};
  ++errors_.count;
  ++skipped_[account.key];
  if (errors_.first.size() < kKept) errors_.first.push_back(error);
  Passed& passed = stages_.try_emplace(&account.stage, before_).first->second;
  passed.seen += reached;
  ++passed.bad;
  const bool too_many = errors_.count > options_.max_errors;
  const bool too_large_share =
      passed.seen >= 100 &&
      static_cast<double>(passed.bad) > options_.max_error_share * static_cast<double>(passed.seen);
  if (!too_many && !too_large_share) return {};
  over_ = Error(error.code(),
                std::to_string(errors_.count) + " bad elements of " + std::to_string(passed.seen) +
                    " exceed the error budget; the last: " + error.cause(),
                error.where(), error.original());
  return over_;
}

void SkipLedger::surfaced(const Error& error) {
  MutexLock lock(mutex_);
  ++errors_.count;
  if (errors_.first.size() < kKept) errors_.first.push_back(error);
}

void SkipLedger::end(const Error& error) {
  MutexLock lock(mutex_);
  if (!over_.ok()) return;
  over_ = error;
  ++errors_.count;
  if (errors_.first.size() < kKept) errors_.first.push_back(error);
}

std::uint64_t SkipLedger::skipped(std::uint64_t key) const {
  MutexLock lock(mutex_);
  const auto found = skipped_.find(key);
  return found == skipped_.end() ? 0 : found->second;
}

void SkipLedger::restore_skipped(const Account& account, std::uint64_t skipped) {
  if (!account.counted) return;
  MutexLock lock(mutex_);
  errors_.count += skipped;
  skipped_[account.key] += skipped;
  before_.seen += skipped;
  before_.bad += skipped;
}

void SkipLedger::restore(std::uint64_t errors, std::uint64_t good) {
  MutexLock lock(mutex_);
  errors_.count = errors;
  before_ = {errors + good, errors};
}

ErrorStats SkipLedger::stats() const {
  MutexLock lock(mutex_);
  return errors_;
}

}  // namespace penstock
