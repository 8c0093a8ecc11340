#include "towers/strategies/replica_tokens.h"

#include <algorithm>

namespace penstock::towers {

ReplicaTokens::ReplicaTokens(int total, int aggregate) : total_(total), aggregate_(aggregate) {
  restart(0);
}

void ReplicaTokens::restart(std::uint64_t step) {
  step_ = step;
  waiting_ = 0;
  tokens_.assign(static_cast<std::size_t>(std::max(0, aggregate_ - total_)), step);
}

ReplicaTokens::Push ReplicaTokens::push(std::uint64_t local) {
  if (local < step_) return Push::dropped;
  return ++waiting_ == aggregate_ ? Push::completed : Push::added;
}

void ReplicaTokens::updated() {
  waiting_ = 0;
  ++step_;
  tokens_.insert(tokens_.end(), static_cast<std::size_t>(std::max(total_, aggregate_)), step_);
}

bool ReplicaTokens::take(std::uint64_t& local) {
  if (tokens_.empty()) return false;
  local = tokens_.front();
  tokens_.erase(tokens_.begin());
  return true;
}

}  // namespace penstock::towers
