#include <algorithm>
#include <vector>

#include "towers/gpu/gpu.h"
#include "towers/strategies/gradient_exchange.h"
#include "towers/strategies/kinds.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

class Replicated final : public Strategy {
 public:
  Replicated(VariableStore& store, const StrategyOptions& options)
      : store_(store),
        exchange_(store, options),
        turn_(options.turn),
        steps_(static_cast<std::size_t>(store.towers())) {
    for (int tower = 0; tower < store.towers(); ++tower)
      updaters_.emplace_back(store, tower, options.update);
  }

  void begin(int tower, std::int64_t rows) override { exchange_.begin(tower, rows); }

  void update(int tower, std::int64_t rows) override {
    const auto t = static_cast<std::size_t>(tower);
    exchange_.finish(tower, rows);
    std::unique_lock<std::mutex> turn;
    if (turn_) turn = turn_(tower);
    updaters_[t].apply(store_.of(tower), steps_[t]++);
  }

  void fail(const Status& error) noexcept override { exchange_.fail(error); }
  StrategyStats stats() const override { return exchange_.stats(); }
  std::uint64_t step() const override { return steps_.front(); }
  Slots slots(std::size_t variable) override { return updaters_.front().slots(variable); }

  void restore(std::uint64_t step) override {
    steps_.assign(steps_.size(), step);
    for (std::size_t v = 0; v < store_.of(0).size(); ++v) {
      store_.share(v);
      const Slots first = slots(v);
      for (std::size_t s = 0; s < first.arrays.size(); ++s) {
        const Array values = on_host(first.gpu, first.arrays[s]);
        for (std::size_t t = 1; t < updaters_.size(); ++t) {
          const Slots other = updaters_[t].slots(v);
          assign(other.gpu, values.values(), other.arrays[s]);
        }
      }
    }
  }

 private:
  VariableStore& store_;
  GradientExchange exchange_;
  const std::function<std::unique_lock<std::mutex>(int)> turn_;
  std::vector<Updater> updaters_;     // each used by its tower
  std::vector<std::uint64_t> steps_;  // each used by its tower; equal between steps
};

}  // namespace

StrategyPtr make_replicated(VariableStore& store, const StrategyOptions& options) {
  return std::make_unique<Replicated>(store, options);
}

}  // namespace penstock::towers
