#include <vector>

#include <penstock/towers/strategy.h>

#include "towers/strategies/kinds.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

/// Each tower trains its own variables, independent of the others. The difference from other
/// strategies shows what the exchange costs.
class Independent final : public Strategy {
 public:
  Independent(VariableStore& store, const StrategyOptions& options)
      : store_(store), turn_(options.turn), steps_(static_cast<std::size_t>(store.towers())) {
    for (int tower = 0; tower < store.towers(); ++tower)
      updaters_.emplace_back(store, tower, options.update);
  }

  void update(int tower, std::int64_t rows) override {
    const auto t = static_cast<std::size_t>(tower);
    std::unique_lock<std::mutex> turn;
    if (turn_) turn = turn_(tower);
    const std::uint64_t step = steps_[t]++;
    if (rows > 0) updaters_[t].apply(store_.of(tower), step);
  }

  void fail(const Status& /*error*/) noexcept override {}  // there are no waiting calls
  std::uint64_t step() const override { return steps_.front(); }
  Slots slots(std::size_t variable) override { return updaters_.front().slots(variable); }

  /// All towers begin with the values of tower 0.
  void restore(std::uint64_t step) override {
    steps_.assign(steps_.size(), step);
    for (std::size_t v = 0; v < store_.of(0).size(); ++v) store_.share(v);
  }

 private:
  VariableStore& store_;
  const std::function<std::unique_lock<std::mutex>(int)> turn_;
  std::vector<Updater> updaters_;     // each used by its tower
  std::vector<std::uint64_t> steps_;  // each used by its tower; equal between steps
};

}  // namespace

StrategyPtr make_independent(VariableStore& store, const StrategyOptions& options) {
  return std::make_unique<Independent>(store, options);
}

}  // namespace penstock::towers
