// A strategy that combines the gradients of the first replicas that are ready, with backups for
// slow ones.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include <penstock/towers/strategy.h>

#include "towers/strategies/host_side.h"
#include "towers/strategies/replica_tokens.h"
#include "towers/train/updater.h"

namespace penstock::towers {

/// The strategy. It keeps the gradients that replicas push, by the rules of ReplicaTokens.
/// `sum_by_tree` adds them up in the order of towers, independent of the order of arrival. So with
/// all replicas aggregated, an update has the bits of `replicated`. The tower that completes an
/// update makes it. Towers may call `update`, or its halves: `push`, then `take` until it returns
/// true.
class SyncReplicas final : public Strategy {
 public:
  SyncReplicas(VariableStore& store, const StrategyOptions& options);

  void update(int tower, std::int64_t rows) override;
  /// Counts or drops the tower's gradients. Throws the error given to `fail`.
  void push(int tower, std::int64_t rows);
  /// Gives the tower the values of its next step, if it may begin one. Does not wait.
  bool take(int tower);
  /// Gives the tower's token to the others, so that the remaining ones can still complete updates.
  void leave(int tower) override;
  void fail(const Status& error) noexcept override;

  bool synchronous() const noexcept override { return false; }
  std::uint64_t step() const override;
  StrategyStats stats() const override;
  /// Gives all towers the same step, and drops gradients that are not part of an update yet.
  void settle() override;
  Slots slots(std::size_t variable) override { return updater_.slots(variable); }
  void restore(std::uint64_t step) override;

 private:
  /// The gradients that a replica pushed. Its memory is reused for each update.
  struct Contribution {
    int tower = 0;
    std::int64_t rows = 0;
    // For each variable: its gradient, or its value if it has none.
    std::vector<Array> values{};
    std::vector<char> has_value{};  // one for each variable
  };

  // With mutex_ held.
  void push_locked(int tower, std::int64_t rows);
  void add(int tower, std::span<Variable* const> mine, std::int64_t rows);
  void make_update();
  void combine(std::size_t variable);
  void drop_pushed();
  void give(HostSide& side) const;

  VariableStore& store_;
  const StrategyOptions options_;
  std::vector<HostSide> sides_;  // each is used by its tower
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const std::vector<std::unique_ptr<Variable>> copies_;  // values and combined gradients
  const std::vector<Variable*> copies_view_;
  Updater updater_;
  ReplicaTokens tokens_;
  std::vector<std::uint64_t> local_;  // the step that each tower computes for
  // The turn that gets the next token.
  std::uint64_t first_in_line_ = 1;
  // The turn that was given out last.
  std::uint64_t last_in_line_ = 0;
  std::vector<Contribution> contributions_;  // as many as an update needs
  std::size_t pushed_ = 0;                   // the number of these that are pushed
  Status error_;
  StrategyStats stats_;
};

}  // namespace penstock::towers
