// The rules that say which replica may step when, with backup replicas. There are no threads or
// gradients here.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::towers {

/// The state of TF's SyncReplicasOptimizer. A replica steps while it holds a token, which carries
/// its step. Its push counts if no update has been made since that step. The `aggregate`th push
/// that counts makes an update, and then max(total, aggregate) tokens are given out. Unlike TF, it
/// begins with max(0, aggregate - total) tokens for all, in addition to the first token of each
/// replica. So no replica alone can make updates for ever. Not synchronised.
class ReplicaTokens {
 public:
  ReplicaTokens(int total, int aggregate);

  enum class Push {
    dropped,   ///< too old
    added,     ///< waits for others
    completed  ///< completes an update
  };
  /// Takes the gradient of a replica whose step is `local`. After `completed`, call `updated`.
  Push push(std::uint64_t local);
  void updated();
  /// Takes a token if there is one, and sets `local` to its step.
  bool take(std::uint64_t& local);
  bool ready() const noexcept { return !tokens_.empty(); }
  /// Returns the token of a replica that pushes no more.
  void give_back(std::uint64_t local) { tokens_.push_back(local); }

  std::uint64_t step() const noexcept { return step_; }
  void restart(std::uint64_t step);

 private:
  int total_, aggregate_;
  std::uint64_t step_ = 0;
  int waiting_ = 0;
  std::vector<std::uint64_t> tokens_;  // first in, first out
};

}  // namespace penstock::towers
