#include <algorithm>
#include <mutex>
#include <vector>

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

  void update(int tower, std::int64_t rows) override {
    HostSide& side = sides_[static_cast<std::size_t>(tower)];
    side.fetch();
    const std::span<Variable* const> mine = side.variables();
    const std::lock_guard lock(mutex_);
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
    take(side);
    seen = step_;
  }

  // No tower waits here, but none may continue after an error.
  void fail(const Status& error) noexcept override {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = error;
  }
  bool synchronous() const noexcept override { return false; }

  std::uint64_t step() const override {
    const std::lock_guard lock(mutex_);
    return step_;
  }

  StrategyStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void settle() override {
    for (HostSide& side : sides_) take(side);
    seen_.assign(seen_.size(), step_);
  }

  Slots slots(std::size_t variable) override { return updater_.slots(variable); }

  void restore(std::uint64_t step) override {
    step_ = step;
    for (std::size_t v = 0; v < copies_.size(); ++v)
      std::ranges::copy(on_host(store_.gpu(0), store_.of(0)[v]->value).values(),
                        copies_[v]->value.data());
    settle();
  }

 private:
  void apply(Variable& mine, std::size_t index) {
    Variable& shared = *copies_[index];
    // Statistics have no gradients: the latest values count.
    if (!mine.trainable) std::ranges::copy(mine.value.values(), shared.value.data());
    shared.has_gradient = mine.has_gradient;
    shared.gradient = Array::view(mine.gradient.data(), mine.gradient.shape());
    updater_.apply(shared, index, step_);
  }

  void take(HostSide& side) const {
    for (std::size_t v = 0; v < copies_.size(); ++v)
      std::ranges::copy(copies_[v]->value.values(), side.variables()[v]->value.data());
    side.give();
  }

  VariableStore& store_;
  const StrategyOptions options_;
  std::vector<HostSide> sides_;  // each used by its tower
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  const std::vector<std::unique_ptr<Variable>> copies_;
  Updater updater_;
  std::uint64_t step_ = 0;
  // For each tower, the update that its values include.
  std::vector<std::uint64_t> seen_;
  StrategyStats stats_;
  Status error_;
};

}  // namespace

StrategyPtr make_async(VariableStore& store, const StrategyOptions& options) {
  return std::make_unique<Async>(store, options);
}

}  // namespace penstock::towers
