#include "towers/step_log.h"

#include <algorithm>

namespace penstock::towers {

void StepLog::begin(std::uint64_t first_step, std::uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  open_.clear();
  first_ = first_step;
  epoch_ = epoch;
}

void StepLog::add(std::uint64_t step, const Loss& loss) {
  const std::lock_guard lock(mutex_);
  add_locked(step, loss);
}

void StepLog::add(const Loss& loss) {
  const std::lock_guard lock(mutex_);
  add_locked(first_, loss);
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
    const Loss& total = open_.front().loss;
    elements_ += static_cast<std::uint64_t>(total.rows);
    losses_.push_back(static_cast<float>(total.mean()));
    observer_.on_step({first_, epoch_, total.mean(),
                       static_cast<double>(total.correct) /
                           static_cast<double>(std::max<std::int64_t>(1, total.rows)),
                       schedule_.at(first_), total.rows});
    open_.pop_front();
    ++first_;
  }
}

}  // namespace penstock::towers
