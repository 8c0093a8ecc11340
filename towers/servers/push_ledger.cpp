#include "towers/servers/push_ledger.h"

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/error.h>

namespace penstock::towers {

PushLedger::PushLedger(Pushes done, std::uint64_t max_steps, int max_staleness)
    : max_steps_(max_steps),
      max_staleness_(max_staleness),
      settled_(std::move(done)),
      last_(settled_.size(), PushVerdict::repeated),
      promises_(settled_.size()) {}

bool PushLedger::is_settled(int replica, std::uint64_t number) const {
  const std::uint64_t done = settled_[at(replica)];
  if (number > done + 1)
    throw Error(ErrorCode::invalid_argument, "push " + std::to_string(number) + " of replica " +
                                                 std::to_string(replica) + " came behind push " +
                                                 std::to_string(done));
  return number <= done;
}

PushVerdict PushLedger::verdict_of(int replica, std::uint64_t number) const {
  return number == settled_[at(replica)] ? last_[at(replica)] : PushVerdict::repeated;
}

void PushLedger::settle(int replica, std::uint64_t number, PushVerdict verdict) {
  settled_[at(replica)] = number;
  last_[at(replica)] = verdict;
}

std::uint64_t PushLedger::promised_but_to(int replica) const {
  std::uint64_t count = 0;
  for (std::size_t r = 0; r < promises_.size(); ++r)
    if (r != at(replica) && promises_[r] && promises_[r]->decision.verdict == PushVerdict::applied)
      ++count;
  return count;
}

std::optional<PushLedger::Decision> PushLedger::decide(int replica, std::uint64_t number,
                                                       std::uint64_t seen,
                                                       std::uint64_t step) const {
  if (const auto& promise = promises_[at(replica)]; promise && promise->number == number)
    return promise->decision;
  if (max_steps_ > 0) {
    if (step >= max_steps_) return Decision{PushVerdict::finished, 0};
    if (step + promised_but_to(replica) >= max_steps_) return std::nullopt;
  }
  const std::uint64_t age = step - std::min(seen, step);
  const bool old = max_staleness_ >= 0 && age > static_cast<std::uint64_t>(max_staleness_);
  return Decision{old ? PushVerdict::dropped : PushVerdict::applied, age};
}

void PushLedger::promise(int replica, std::uint64_t number, const Decision& decision) {
  promises_[at(replica)] = Promise{number, decision};
}

void PushLedger::make_good(int replica, std::uint64_t number, const Decision& decision) {
  promises_[at(replica)].reset();
  settle(replica, number, decision.verdict);
  if (decision.verdict == PushVerdict::dropped) {
    ++figures_.dropped;
  } else {
    ++figures_.applied;
    // Older pushes are counted with the oldest, so that no process can make this grow without
    // limit.
    const std::uint64_t age = std::min<std::uint64_t>(decision.staleness, 4095);
    if (figures_.staleness.size() <= age) figures_.staleness.resize(age + 1);
    ++figures_.staleness[age];
  }
}

void PushLedger::release(int replica) {
  promises_[at(replica)].reset();
}

}  // namespace penstock::towers
