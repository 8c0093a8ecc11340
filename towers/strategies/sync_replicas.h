// Gradients of the first replicas that are ready, with backups for the slow.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "towers/strategies/host_side.h"
#include "towers/strategies/replica_tokens.h"
#include "towers/strategies/strategy.h"

namespace penstock::towers {

/// What replicas push is added up here, as ReplicaTokens has it; whoever completes an update makes
/// it. Towers may call `update`, or its halves: `push`, then `take` until it returns true.
class SyncReplicas final : public Strategy {
 public:
  SyncReplicas(VariableStore& store, const StrategyOptions& options);

  void update(int tower, std::int64_t rows) override;
  /// Counts or drops the tower's gradients. Throws what `fail` was given.
  void push(int tower, std::int64_t rows);
  /// Gives the tower the values of its next step, if it may begin one; does not wait.
  bool take(int tower);
  /// Its token goes to the others, so that those that are left can still complete updates.
  void leave(int tower) override;
  void fail(const Status& error) noexcept override;

  bool synchronous() const noexcept override { return false; }
  std::uint64_t step() const override;
  StrategyStats stats() const override;
  /// Towers come back with the same step, and what had not made an update by then is dropped.
  void settle() override;
  Slots slots(std::size_t variable) override { return updater_.slots(variable); }
  void restore(std::uint64_t step) override;

 private:
  // With mutex_ held.
  void add(std::span<Variable* const> mine, std::int64_t rows);
  void make_update();
  void begin_update();
  void give(HostSide& side) const;

  VariableStore& store_;
  const StrategyOptions options_;
  std::vector<HostSide> sides_;  // each its tower's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  const std::vector<std::unique_ptr<Variable>> copies_;  // values, and the sums of what was pushed
  const std::vector<Variable*> copies_view_;
  Updater updater_;
  ReplicaTokens tokens_;
  std::vector<std::uint64_t> local_;  // the step that each tower computes for
  std::vector<double> weights_;       // rows that went into each variable's sum
  std::uint64_t pushed_ = 0;          // gradients in the sums
  Status error_;
  StrategyStats stats_;
};

}  // namespace penstock::towers
