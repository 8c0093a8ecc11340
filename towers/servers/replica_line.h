// The queue of replicas that wait for a token.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "towers/strategies/replica_tokens.h"

namespace penstock::towers {

/// The queue, and the tokens of ReplicaTokens that each replica holds. Each replica has one at the
/// beginning. A replica queues for the next token as soon as it has pushed, whenever it asks for
/// it. So with all replicas aggregated, each contributes one gradient to each update. A replica
/// that leaves or is lost returns its token; one that comes later joins the queue. Has no threads,
/// and is not synchronised.
class ReplicaLine {
 public:
  ReplicaLine(int total, int aggregate, std::uint64_t step);

  /// Returns the step of the replica's token; nothing if it holds none.
  std::optional<std::uint64_t> held(int replica) const { return held_[at(replica)]; }
  /// Takes the replica's token. After `completed`, call `updated`. REQUIRES: the replica holds a
  /// token.
  ReplicaTokens::Push push(int replica);
  void updated();
  void leave(int replica);
  /// Does nothing for a replica that is present.
  void join(int replica);

  std::uint64_t step() const noexcept { return tokens_.step(); }

 private:
  static std::size_t at(int replica) { return static_cast<std::size_t>(replica); }
  void serve();

  ReplicaTokens tokens_;
  std::vector<std::optional<std::uint64_t>> held_;  // by replica
  std::vector<char> away_;                          // by replica
  std::deque<int> line_;
};

}  // namespace penstock::towers
