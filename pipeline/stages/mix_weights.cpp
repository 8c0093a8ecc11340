#include "pipeline/stages/mix_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "pipeline/stage/node.h"

namespace penstock {
namespace {

constexpr const char* kMixStage = "sample_from";

std::shared_ptr<const std::vector<double>> checked(std::vector<double> weights) {
  if (weights.empty()) bad_stage(kMixStage, "no weights were given");
  for (const double weight : weights) {
    if (std::isfinite(weight) && weight >= 0) continue;
    bad_stage(kMixStage, "a weight must be a number of at least 0, not " + std::to_string(weight));
  }
  return std::make_shared<const std::vector<double>>(std::move(weights));
}

}  // namespace

MixWeights::Record::Record(std::vector<Change> changes) {
  for (Change& change : changes) {
    const Place from{change.epoch, change.draw};
    if (entries_.empty() ? from != Place() : from <= entries_.back().from) {
      bad_stage(kMixStage, "changes of weights must begin with epoch 0, draw 0, and rise");
    }
    entries_.push_back({from, checked(std::move(change.weights))});
    if (entries_.back().weights->size() != entries_.front().weights->size()) {
      bad_stage(kMixStage, "changes of weights must be of as many weights");
    }
  }
  if (entries_.empty()) bad_stage(kMixStage, "no weights were given");
  inputs_ = entries_.front().weights->size();
}

std::shared_ptr<const std::vector<double>> MixWeights::Record::at(std::uint64_t epoch,
                                                                  std::uint64_t draw) {
  const MutexLock lock(mutex_);
  next_ = std::max(next_, Place(epoch, draw + 1));
  auto entry = entries_.end() - 1;
  while (entry->from > Place(epoch, draw)) --entry;
  return entry->weights;
}

void MixWeights::Record::reached(std::uint64_t epoch, std::uint64_t draw) {
  const MutexLock lock(mutex_);
  next_ = std::max(next_, Place(epoch, draw));
}

MixWeights::Change MixWeights::Record::set(std::vector<double> weights) {
  auto shared = checked(std::move(weights));
  if (shared->size() != inputs_) {
    bad_stage(kMixStage, std::to_string(shared->size()) + " weights for " +
                             std::to_string(inputs_) + " inputs");
  }
  const MutexLock lock(mutex_);
  // Changes that were planned for later are replaced too.
  while (!entries_.empty() && entries_.back().from >= next_) entries_.pop_back();
  entries_.push_back({next_, shared});
  return {next_.first, next_.second, *shared};
}

std::vector<MixWeights::Change> MixWeights::Record::changes() const {
  const MutexLock lock(mutex_);
  std::vector<Change> result;
  for (const Entry& entry : entries_) {
    result.push_back({entry.from.first, entry.from.second, *entry.weights});
  }
  return result;
}

void MixWeights::Record::save(std::uint64_t epoch, bool exact, StateWriter& changes,
                              StateWriter& draws) const {
  const MutexLock lock(mutex_);
  auto first = entries_.end() - 1;
  while (first != entries_.begin() && first->from > Place(epoch, 0)) --first;
  changes.put(static_cast<std::uint64_t>(entries_.end() - first));
  for (; first != entries_.end(); ++first) {
    changes.put(first->from.first);
    changes.put(first->from.second);
    for (const double weight : *first->weights) changes.put(std::bit_cast<std::uint64_t>(weight));
  }
  draws.put(exact ? 0 : next_.first);
  draws.put(exact ? 0 : next_.second);
}

void MixWeights::Record::restore(StateReader& changes, StateReader& draws) {
  std::vector<Entry> saved;
  for (std::uint64_t left = changes.get(); left > 0; --left) {
    Place from;
    from.first = changes.get();
    from.second = changes.get();
    std::vector<double> weights;
    while (weights.size() < inputs_) weights.push_back(std::bit_cast<double>(changes.get()));
    const bool sound = std::ranges::all_of(
        weights, [](double weight) { return std::isfinite(weight) && weight >= 0; });
    if (!sound || (!saved.empty() && from <= saved.back().from)) {
      throw Error(ErrorCode::data_loss, "the state is damaged");
    }
    saved.push_back({from, std::make_shared<const std::vector<double>>(std::move(weights))});
  }
  if (saved.empty()) throw Error(ErrorCode::data_loss, "the state is damaged");
  Place next;
  next.first = draws.get();
  next.second = draws.get();
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.from > saved.back().from) saved.push_back(entry);
  }
  saved.front().from = {};
  entries_ = std::move(saved);
  next_ = std::max(next_, next);
}

MixWeights::MixWeights(std::vector<double> weights)
    : MixWeights(std::vector<Change>{{0, 0, std::move(weights)}}) {}

MixWeights::MixWeights(std::vector<Change> changes)
    : record_(std::make_shared<Record>(std::move(changes))) {}

MixWeights::Change MixWeights::set(std::vector<double> weights) const {
  return record()->set(std::move(weights));
}

std::vector<MixWeights::Change> MixWeights::changes() const {
  return record()->changes();
}

}  // namespace penstock
