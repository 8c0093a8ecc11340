#include <algorithm>
#include <vector>

#include "towers/strategies/strategy.h"

namespace penstock::towers {
namespace {

/// Each variable has a tower that owns it: gathers, updates, and gives the values to the others.
class ParameterDevice final : public Strategy {
 public:
  ParameterDevice(VariableStore& store, const StrategyOptions& options)
      : store_(store),
        options_(options),
        collective_(make_host_collective(store.towers(), options.timeout_s)),
        updater_(store.of(0), options.update),
        owners_(options.kind == StrategyKind::spread ? store.towers() : 1) {}

  void update(int tower, std::int64_t rows) override {
    combine_gradients(store_, *collective_, tower, rows, options_.combine);
    const std::span<Variable* const> mine = store_.of(tower);
    const std::uint64_t step = step_;
    updater_.clip(mine);
    for (std::size_t v = 0; v < mine.size(); ++v)
      if (owner(v) == tower) updater_.apply(*mine[v], v, step);
    collective_->barrier(tower);
    for (std::size_t v = 0; v < mine.size(); ++v)
      if (owner(v) != tower)
        std::ranges::copy(store_.of(owner(v))[v]->value.values(), mine[v]->value.data());
    if (tower == 0) step_ = step + 1;
    collective_->barrier(tower);
  }

  void fail(const Error& error) noexcept override { collective_->fail(error); }
  std::uint64_t step() const override { return step_; }
  std::span<Array> slots(std::size_t variable) override { return updater_.slots(variable); }

  void restore(std::uint64_t step) override {
    step_ = step;
    for (int tower = 1; tower < store_.towers(); ++tower)
      std::ranges::copy(store_.values(0), store_.values(tower).data());
  }

 private:
  int owner(std::size_t variable) const {
    return static_cast<int>(variable % static_cast<std::size_t>(owners_));
  }

  VariableStore& store_;
  const StrategyOptions options_;
  std::unique_ptr<Collective> collective_;
  Updater updater_;         // each variable's by its owner
  std::uint64_t step_ = 0;  // by tower 0, between barriers
  const int owners_;
};

}  // namespace

StrategyPtr make_parameter_device(VariableStore& store, const StrategyOptions& options) {
  return std::make_unique<ParameterDevice>(store, options);
}

}  // namespace penstock::towers
