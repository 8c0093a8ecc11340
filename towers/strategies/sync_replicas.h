// A strategy that combines the gradients of the first replicas that are ready, with backups for
// slow ones.
#pragma once

#include <memory>
#include <vector>

#include <penstock/internal/thread_annotations.h>
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

  void update(int tower, std::int64_t rows) EXCLUDES(mutex_) override;
  /// Counts or drops the tower's gradients. Throws the error given to `fail`.
  void push(int tower, std::int64_t rows) EXCLUDES(mutex_);
  /// Gives the tower the values of its next step, if it may begin one. Does not wait.
  bool take(int tower) EXCLUDES(mutex_);
  /// Gives the tower's token to the others, so that the remaining ones can still complete updates.
  void leave(int tower) EXCLUDES(mutex_) override;
  void fail(const Status& error) noexcept EXCLUDES(mutex_) override;

  bool synchronous() const noexcept override { return false; }
  std::uint64_t step() const EXCLUDES(mutex_) override;
  StrategyStats stats() const EXCLUDES(mutex_) override;
  /// Gives all towers the same step, and drops gradients that are not part of an update yet.
  void settle() EXCLUDES(mutex_) override;
  Slots slots(std::size_t variable) EXCLUDES(mutex_) override;
  void restore(std::uint64_t step) EXCLUDES(mutex_) override;

 private:
  /// The gradients that a replica pushed. Its memory is reused for each update.
  struct Contribution {
    int tower = 0;
    std::int64_t rows = 0;
    // For each variable: its gradient, or its value if it has none.
    std::vector<Array> values{};
    std::vector<char> has_value{};  // one for each variable
  };

  void push_locked(int tower, std::int64_t rows) REQUIRES(mutex_);
  /// True if the turn `place` gets a token now.
  bool is_next(std::uint64_t place) const REQUIRES(mutex_);
  void add(int tower, std::span<Variable* const> mine, std::int64_t rows) REQUIRES(mutex_);
  void make_update() REQUIRES(mutex_);
  void combine(std::size_t variable) REQUIRES(mutex_);
  void drop_pushed() REQUIRES(mutex_);
  void copy_values(const HostSide& to) const REQUIRES(mutex_);

  VariableStore& store_;
  const StrategyOptions options_;
  std::vector<HostSide> sides_;  // each is used by its tower
  mutable SlowMutex mutex_;      // held while an update is made, and while values are restored
  CondVar changed_;
  // Values and combined gradients.
  const std::vector<std::unique_ptr<Variable>> copies_ GUARDED_BY(mutex_);
  const std::vector<Variable*> copies_view_ GUARDED_BY(mutex_);
  Updater updater_ GUARDED_BY(mutex_);
  ReplicaTokens tokens_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> local_ GUARDED_BY(mutex_);  // the step that each tower computes for
  // The turn that gets the next token.
  std::uint64_t first_in_line_ GUARDED_BY(mutex_) = 1;
  // The turn that was given out last.
  std::uint64_t last_in_line_ GUARDED_BY(mutex_) = 0;
  std::vector<Contribution> contributions_ GUARDED_BY(mutex_);  // as many as an update needs
  std::size_t pushed_ GUARDED_BY(mutex_) = 0;  // the number of these that are pushed
  Status error_ GUARDED_BY(mutex_);
  StrategyStats stats_ GUARDED_BY(mutex_);
};

}  // namespace penstock::towers
