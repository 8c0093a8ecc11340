#include <algorithm>
#include <vector>

#include <penstock/internal/thread_annotations.h>
#include <penstock/towers/strategy.h>

#include "towers/gpu/gpu.h"
#include "towers/strategies/host_side.h"
#include "towers/strategies/kinds.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

/// Keeps one copy of the values that belongs to no tower. Each tower updates it with its gradients,
/// whatever updates the others have made since it read the values.
class Async final : public Strategy {
 public:
  Async(VariableStore& store, const StrategyOptions& options)
      : store_(store),
        options_(options),
        sides_(host_sides(store)),
        copies_(copies_of(store)),
        updater_(view_of(copies_), options.update),
        seen_(static_cast<std::size_t>(store.towers())) {}

  void update(int tower, std::int64_t rows) EXCLUDES(mutex_) override {
    HostSide& side = sides_[static_cast<std::size_t>(tower)];
    side.fetch();
    const std::span<Variable* const> mine = side.variables();
    {
      const MutexLock lock(mutex_);
      if (!error_.ok()) throw Error(error_.error());
      std::uint64_t& seen = seen_[static_cast<std::size_t>(tower)];
      const std::uint64_t age = step_ - seen;
      if (options_.max_staleness >= 0 && age > static_cast<std::uint64_t>(options_.max_staleness)) {
        ++stats_.dropped;
      } else if (rows > 0) {
        updater_.clip(mine, step_);
        for (std::size_t v = 0; v < mine.size(); ++v) apply(*mine[v], v);
        ++step_;
        ++stats_.applied;
        if (stats_.staleness.size() <= age) stats_.staleness.resize(age + 1);
        ++stats_.staleness[age];
      }
      copy_values(side);
      seen = step_;
    }
    side.give();
  }

  // No tower waits here, but none may continue after an error.
  void fail(const Status& error) noexcept EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    if (error_.ok()) error_ = error;
  }
  bool synchronous() const noexcept override { return false; }

  std::uint64_t step() const EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    return step_;
  }

  StrategyStats stats() const EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    return stats_;
  }

  void settle() EXCLUDES(mutex_) override {
    {
      const MutexLock lock(mutex_);
      for (const HostSide& side : sides_) copy_values(side);
      seen_.assign(seen_.size(), step_);
    }
    for (HostSide& side : sides_) side.give();
  }

  Slots slots(std::size_t variable) EXCLUDES(mutex_) override {
    const MutexLock lock(mutex_);
    return updater_.slots(variable);
  }

  void restore(std::uint64_t step) EXCLUDES(mutex_) override {
    {
      const MutexLock lock(mutex_);
      step_ = step;
      for (std::size_t v = 0; v < copies_.size(); ++v)
        std::ranges::copy(on_host(store_.gpu(0), store_.of(0)[v]->value).values(),
                          copies_[v]->value.data());
    }
    settle();
  }

 private:
  void apply(Variable& mine, std::size_t index) REQUIRES(mutex_) {
    Variable& shared = *copies_[index];
    // Statistics have no gradients: the latest values count.
    if (!mine.trainable) std::ranges::copy(mine.value.values(), shared.value.data());
    shared.has_gradient = mine.has_gradient;
    shared.gradient = Array::view(mine.gradient.data(), mine.gradient.shape());
    updater_.apply(shared, index, step_);
  }

  void copy_values(const HostSide& to) const REQUIRES(mutex_) {
    for (std::size_t v = 0; v < copies_.size(); ++v)
      std::ranges::copy(copies_[v]->value.values(), to.variables()[v]->value.data());
  }

  VariableStore& store_;
  const StrategyOptions options_;
  std::vector<HostSide> sides_;  // each used by its tower
  mutable SlowMutex mutex_;      // held while an update is made, and while values are restored
  const std::vector<std::unique_ptr<Variable>> copies_ GUARDED_BY(mutex_);
  Updater updater_ GUARDED_BY(mutex_);
  std::uint64_t step_ GUARDED_BY(mutex_) = 0;
  // For each tower, the update that its values include.
  std::vector<std::uint64_t> seen_ GUARDED_BY(mutex_);
  StrategyStats stats_ GUARDED_BY(mutex_);
  Status error_ GUARDED_BY(mutex_);
};

}  // namespace

StrategyPtr make_async(VariableStore& store, const StrategyOptions& options) {
  return std::make_unique<Async>(store, options);
}

}  // namespace penstock::towers
