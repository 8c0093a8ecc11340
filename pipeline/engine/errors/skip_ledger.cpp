#include "pipeline/engine/errors/skip_ledger.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace penstock {

Status SkipLedger::add(const Account& account, std::uint64_t reached, const Error& error) {
  // Elements that a cancelled run gave up are not bad, nor are those that a larger budget makes,
  // nor those of files that changed.
  const bool ends =
      error.code() == ErrorCode::resource_exhausted || error.code() == ErrorCode::changed;
  if (error.code() != ErrorCode::cancelled && !ends) quarantine_.add(error);
  MutexLock lock(mutex_);
  if (is_on_its_way(error)) return over_;
  if (ends) {
    end_with(error);
    return over_;
  }
  if (!account.counted) return {};
  count(error);
  const Passed passed = charge(account, {reached, 1});
  const bool too_many = errors_.count > options_.max_errors;
  const bool too_large_share = passed.seen >= 100 && options_.max_error_share &&
                               static_cast<double>(passed.bad) >
                                   *options_.max_error_share * static_cast<double>(passed.seen);
  if (!too_many && !too_large_share) return {};
  over_ = Error(error.code(),
                std::to_string(errors_.count) + " bad elements of " + std::to_string(passed.seen) +
                    " exceed the error budget; the last: " + error.cause(),
                error.where(), error.original());
  return over_;
}

// An error that ends the run passes through the stages behind. It may have been made ahead of an
// element that is bad, too, and ends nothing.
bool SkipLedger::is_on_its_way(const Error& error) const {
  return !over_.ok() && over_.error().code() == error.code() &&
         std::strcmp(over_.error().what(), error.what()) == 0;
}

void SkipLedger::end_with(const Error& error) {
  over_ = error;
  count(error);
  ++ends_;
}

Status SkipLedger::judge(std::uint64_t key) {
  MutexLock lock(mutex_);
  Status found = mostly_bad(key);
  if (!found.ok()) over_ = found;
  return found;
}

Status SkipLedger::verdict(std::uint64_t key) const {
  MutexLock lock(mutex_);
  return mostly_bad(key);
}

Status SkipLedger::mostly_bad(std::uint64_t key) const {
  constexpr std::uint64_t kFewest = 10;
  if (options_.on_error != OnError::skip || options_.max_errors != RunOptions().max_errors ||
      options_.max_error_share)
    return {};
  if (!over_.ok() || errors_.count == 0) return {};
  std::map<const StageCounters*, Passed> all = before_;
  for (const auto& [whose, passed] : since_)
    if (whose.first == key) all[whose.second] += passed;
  for (const auto& [stage, passed] : all) {
    if (passed.seen < kFewest || passed.bad <= passed.seen - passed.bad) continue;
    const bool known = !errors_.first.empty();  // else they are those of a saved run
    return Error(known ? errors_.first.front().code() : ErrorCode::data_loss,
                 std::to_string(passed.bad) + " of " + std::to_string(passed.seen) +
                     " elements are bad and were skipped, more than half (--max-errors, " +
                     "RunOptions::max_error_share, allows more)" +
                     (known ? "; the first: " + errors_.first.front().cause() : ""),
                 known ? errors_.first.front().where() : Provenance());
  }
  return {};
}

void SkipLedger::pass(const Account& account, std::uint64_t good) {
  if (options_.on_error != OnError::skip || !account.counted || good == 0) return;
  MutexLock lock(mutex_);
  charge(account, {good, 0});
}

// The next epoch may have begun, so its counts are separate.
Passed SkipLedger::charge(const Account& account, Passed more) {
  since_[{account.key, account.stage}] += more;
  Passed all = before_[account.stage];
  for (const auto& [whose, passed] : since_) {
    if (whose.second == account.stage) all += passed;
  }
  return all;
}

void SkipLedger::count(const Error& error) {
  constexpr std::uint64_t kKept = 100;
  ++errors_.count;
  if (errors_.first.size() < std::min(kKept, errors_.count)) errors_.first.push_back(error);
}

void SkipLedger::surfaced(const Error& error) {
  MutexLock lock(mutex_);
  count(error);
}

void SkipLedger::leave_out(const Account& account, const Error& error) {
  if (!account.counted) return;
  MutexLock lock(mutex_);
  count(error);
  since_[{account.key, account.stage}].left_out += 1;
}

void SkipLedger::end(const Error& error) {
  MutexLock lock(mutex_);
  if (!is_on_its_way(error)) end_with(error);
}

Passed SkipLedger::in_epoch(std::uint64_t key) const {
  MutexLock lock(mutex_);
  Passed all;
  for (const auto& [whose, passed] : since_)
    if (whose.first == key) all += passed;
  return all;
}

bool SkipLedger::ends_with(const Error& error) const {
  MutexLock lock(mutex_);
  return is_on_its_way(error);
}

std::uint64_t SkipLedger::begin(std::uint64_t key) {
  MutexLock lock(mutex_);
  std::uint64_t errors = 0;
  for (auto at = since_.begin(); at != since_.end();) {
    if (at->first.first == key) {
      ++at;
      continue;
    }
    errors += at->second.errors();
    before_[at->first.second] += at->second;
    at = since_.erase(at);
  }
  return errors;
}

Passed SkipLedger::before(const StageCounters* stage, std::optional<std::uint64_t> key) const {
  MutexLock lock(mutex_);
  Passed passed;
  if (const auto at = before_.find(stage); at != before_.end()) passed = at->second;
  if (!key) return passed;
  if (const auto at = since_.find({*key, stage}); at != since_.end()) passed += at->second;
  return passed;
}

void SkipLedger::restore(std::uint64_t errors) {
  MutexLock lock(mutex_);
  errors_.count = errors;
}

void SkipLedger::restore(const StageCounters* stage, Passed passed) {
  MutexLock lock(mutex_);
  before_[stage] = passed;
}

void SkipLedger::restore(const Account& account, Passed passed) {
  // Such a run does not count good elements, so its states are those of one that was not restored.
  if (options_.on_error != OnError::skip && passed.errors() == 0) return;
  if (!account.counted) return;
  MutexLock lock(mutex_);
  errors_.count += passed.errors();
  charge(account, passed);
}

void SkipLedger::step_back() {
  MutexLock lock(mutex_);
  std::uint64_t errors = std::exchange(ends_, 0);
  for (const auto& [whose, passed] : since_) errors += passed.errors();
  since_.clear();
  over_ = Status();
  errors_.count -= errors;
}

ErrorStats SkipLedger::stats() const {
  MutexLock lock(mutex_);
  ErrorStats stats = errors_;
  while (stats.first.size() > stats.count) stats.first.pop_back();
  return stats;
}

}  // namespace penstock
