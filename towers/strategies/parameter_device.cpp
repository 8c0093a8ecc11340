#include <algorithm>
#include <vector>

#include "towers/gpu/gpu.h"
#include "towers/strategies/gradient_exchange.h"
#include "towers/strategies/kinds.h"
#include "towers/train/collective.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

/// Each variable has an owner among the towers, which gathers the gradients, updates the variable,
/// and gives its values to the others.
class ParameterDevice final : public Strategy {
 public:
  ParameterDevice(VariableStore& store, const StrategyOptions& options)
      : store_(store),
        exchange_(store, options),
        turn_(options.turn),
        collective_(make_host_collective(store.towers(), options.timeout_s)),
        owners_(options.kind == StrategyKind::spread ? store.towers() : 1),
        updater_(owned(), options.update) {
    for (int tower = 0; tower < store.towers(); ++tower)
      if (const Gpu* gpu = store.gpu(tower)) done_.emplace_back(gpu->device());
  }

  void begin(int tower, std::int64_t rows) override { exchange_.begin(tower, rows); }

  void update(int tower, std::int64_t rows) override {
    exchange_.finish(tower, rows);
    const std::span<Variable* const> mine = store_.of(tower);
    const std::uint64_t step = step_;
    {
      std::unique_lock<std::mutex> turn;
      if (turn_) turn = turn_(tower);
      updater_.clip(mine, step);
      for (std::size_t v = 0; v < mine.size(); ++v)
        if (owner(v) == tower) updater_.apply(*mine[v], v, step);
    }
    meet(tower);
    for (std::size_t v = 0; v < mine.size(); ++v)
      if (owner(v) != tower) copy(store_.of(owner(v))[v]->value, *mine[v]);
    if (tower == 0) step_ = step + 1;
    meet(tower);
  }

  void fail(const Status& error) noexcept override {
    exchange_.fail(error);
    collective_->fail(error);
  }
  StrategyStats stats() const override { return exchange_.stats(); }
  std::uint64_t step() const override { return step_; }
  Slots slots(std::size_t variable) override { return updater_.slots(variable); }

  void restore(std::uint64_t step) override {
    step_ = step;
    for (std::size_t v = 0; v < store_.of(0).size(); ++v) store_.share(v);
  }

 private:
  int owner(std::size_t variable) const {
    return static_cast<int>(variable % static_cast<std::size_t>(owners_));
  }

  std::vector<Variable*> owned() const {
    std::vector<Variable*> variables;
    for (std::size_t v = 0; v < store_.of(0).size(); ++v)
      variables.push_back(store_.of(owner(v))[v]);
    return variables;
  }

  /// Orders all work that towers have enqueued so far before the work that any enqueues from here
  /// on.
  void meet(int tower) {
    const Gpu* gpu = store_.gpu(tower);
    if (gpu != nullptr) gpu->stream().record(done_[static_cast<std::size_t>(tower)]);
    collective_->barrier(tower);
    if (gpu == nullptr) return;
    for (const Event& done : done_) gpu->stream().wait(done);
    collective_->barrier(tower);  // no tower records again before all have waited
  }

  static void copy(const Array& from, Variable& to) {
    if (to.gpu != nullptr) {
      to.gpu->stream().copy({to.value.bytes(), from.bytes(), from.nbytes()});
    } else {
      std::ranges::copy(from.values(), to.value.data());
    }
  }

  VariableStore& store_;
  GradientExchange exchange_;
  const std::function<std::unique_lock<std::mutex>(int)> turn_;
  const std::unique_ptr<Collective> collective_;
  const int owners_;
  Updater updater_;          // each variable is updated by its owner
  std::vector<Event> done_;  // one for each tower on a GPU
  std::uint64_t step_ = 0;   // written by tower 0, between barriers
};

}  // namespace

StrategyPtr make_parameter_device(VariableStore& store, const StrategyOptions& options) {
  return std::make_unique<ParameterDevice>(store, options);
}

}  // namespace penstock::towers
