// Who may step when, with backup towers: the rules alone, without threads or gradients.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::towers {

/// The state of TF's SyncReplicasOptimizer. A replica steps while it holds a token, which carries
/// the step that it is for. What it pushes counts if no update has passed it by since; the
/// `aggregate`th that counts makes an update, upon which max(total, aggregate) tokens are given
/// out. Unlike TF it begins with max(0, aggregate - total) tokens for all beside the first of each
/// replica, so that no replica alone can make updates for ever. Not synchronised.
class ReplicaTokens {
 public:
  ReplicaTokens(int total, int aggregate);

  enum class Push {
    dropped,   ///< too old
    added,     ///< waits for others
    completed  ///< with this an update is made
  };
  /// A gradient of a replica whose step is `local`. After `completed` call `updated`.
  Push push(std::uint64_t local);
  void updated();
  /// Takes a token if there is one; `local` becomes the step that it is for.
  bool take(std::uint64_t& local);
  bool ready() const noexcept { return !tokens_.empty(); }
  /// A replica that pushes no more returns what it holds.
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
