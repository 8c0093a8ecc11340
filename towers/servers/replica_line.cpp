#include "towers/servers/replica_line.h"

#include <algorithm>
#include <utility>

namespace penstock::towers {

ReplicaLine::ReplicaLine(int total, int aggregate, std::uint64_t step)
    : tokens_(total, aggregate),
      held_(static_cast<std::size_t>(total), step),
      away_(static_cast<std::size_t>(total), 0) {
  tokens_.restart(step);
}

ReplicaTokens::Push ReplicaLine::push(int replica) {
  const std::uint64_t local = *std::exchange(held_[at(replica)], std::nullopt);
  line_.push_back(replica);
  const ReplicaTokens::Push what = tokens_.push(local);
  if (what != ReplicaTokens::Push::completed) serve();
  return what;
}

void ReplicaLine::updated() {
  tokens_.updated();
  serve();
}

void ReplicaLine::leave(int replica) {
  if (std::exchange(away_[at(replica)], 1) != 0) return;
  std::erase(line_, replica);
  if (const auto local = std::exchange(held_[at(replica)], std::nullopt)) tokens_.give_back(*local);
  serve();
}

void ReplicaLine::join(int replica) {
  if (std::exchange(away_[at(replica)], 0) == 0) return;
  line_.push_back(replica);
  serve();
}

void ReplicaLine::serve() {
  std::uint64_t local = 0;
  while (!line_.empty() && tokens_.take(local)) {
    held_[at(line_.front())] = local;
    line_.pop_front();
  }
}

}  // namespace penstock::towers
