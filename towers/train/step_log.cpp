#include "towers/train/step_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

#include <penstock/error.h>
#include <penstock/log.h>
#include <penstock/towers/peers.h>

#include "towers/numbers.h"

namespace penstock::towers {

void StepLog::begin(std::uint64_t first_step, std::uint64_t epoch) {
  const MutexLock lock(mutex_);
  open_.clear();
  first_ = first_step;
  epoch_ = epoch;
}

void StepLog::add(std::uint64_t step, const Loss& loss) {
  const MutexLock lock(mutex_);
  add_locked(step, loss);
}

void StepLog::add(const Loss& loss) {
  const MutexLock lock(mutex_);
  add_locked(first_, loss);
}

namespace {

bool has_diverged(double loss) {
  return !(std::abs(loss) <= kMostLoss);
}

std::string divergence(double loss, std::uint64_t step) {
  return "the loss is " +
         (std::isfinite(loss) ? exact_text(loss) + ", beyond " + exact_text(kMostLoss) + ","
                              : std::string("not a number")) +
         " at step " + std::to_string(step) + "; a lower learning rate may help";
}

}  // namespace

void StepLog::add_checked(std::uint64_t step, const Loss& loss, bool together) {
  const double mean = loss.mean();
  if (has_diverged(mean)) {
    if (stop_if_diverged_) throw Error(ErrorCode::diverged, divergence(mean, step));
    if (!warned_.exchange(true))
      log(LogLevel::warning, divergence(mean, step) + "; the run continues");
  }
  if (together) {
    add(step, loss);
  } else {
    add(loss);
  }
}

void StepLog::report(TrainResult& result) const {
  const MutexLock lock(mutex_);
  result.losses = losses_;
  result.elements = elements_;
  result.diverged_steps = diverged_;
}

void StepLog::add_locked(std::uint64_t step, const Loss& loss) {
  open_.resize(std::max<std::size_t>(open_.size(), step - first_ + 1));
  Sum& sum = open_[step - first_];
  ++sum.parts;
  sum.loss.sum += loss.sum;
  sum.loss.correct += loss.correct;
  sum.loss.rows += loss.rows;
  sum.loss.regularization = loss.regularization;
  while (!open_.empty() && open_.front().parts == parts_) {
    const Loss& mine = open_.front().loss;
    const Loss total = total_of(mine);
    elements_ += static_cast<std::uint64_t>(total.rows);
    losses_.push_back(static_cast<float>(total.mean()));
    if (has_diverged(total.mean())) ++diverged_;
    observer_.on_step({first_, epoch_, total.mean(),
                       static_cast<double>(total.correct) /
                           static_cast<double>(std::max<std::int64_t>(1, total.rows)),
                       schedule_.at(first_), total.rows, mine.mean(), mine.rows});
    open_.pop_front();
    ++first_;
  }
}

Loss StepLog::total_of(const Loss& mine) const {
  if (peers_ == nullptr) return mine;
  const std::array<double, 3> told{mine.sum, static_cast<double>(mine.correct),
                                   static_cast<double>(mine.rows)};
  std::vector<double> all(told.size() * static_cast<std::size_t>(peers_->size()));
  peers_->gather_between_towers(std::as_bytes(std::span(told)),
                                std::as_writable_bytes(std::span(all)));
  Loss total = mine;
  total.sum = 0;
  total.correct = 0;
  total.rows = 0;
  for (std::size_t p = 0; p < all.size(); p += told.size()) {
    total.sum += all[p];
    total.correct += static_cast<std::int64_t>(all[p + 1]);
    total.rows += static_cast<std::int64_t>(all[p + 2]);
  }
  return total;
}

}  // namespace penstock::towers
