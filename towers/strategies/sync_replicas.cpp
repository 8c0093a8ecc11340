#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"
#include "towers/strategies/host_side.h"
#include "towers/strategies/replica_tokens.h"
#include "towers/strategies/strategy.h"

namespace penstock::towers {
namespace {

/// What replicas push is added up here; whoever completes an update makes it.
class SyncReplicas final : public Strategy {
 public:
  SyncReplicas(VariableStore& store, const StrategyOptions& options)
      : store_(store),
        options_(options),
        sides_(host_sides(store)),
        copies_(copies_of(store)),
        copies_view_(view_of(copies_)),
        updater_(copies_view_, options.update),
        tokens_(store.towers(), options.aggregate > 0 ? options.aggregate : store.towers()),
        local_(static_cast<std::size_t>(store.towers())),
        weights_(store.of(0).size()) {}

  void update(int tower, std::int64_t rows) override {
    HostSide& side = sides_[static_cast<std::size_t>(tower)];
    side.fetch();
    const std::span<Variable* const> mine = side.variables();
    std::unique_lock lock(mutex_);
    std::uint64_t& local = local_[static_cast<std::size_t>(tower)];
    if (error_) throw Error(*error_);
    switch (tokens_.push(local)) {
      case ReplicaTokens::Push::dropped:
        ++stats_.dropped;
        break;
      case ReplicaTokens::Push::added:
        add(mine, rows);
        break;
      case ReplicaTokens::Push::completed:
        add(mine, rows);
        make_update();
        break;
    }
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.timeout_s);
    while (!tokens_.take(local)) {
      const bool late = changed_.wait_until(lock, until) == std::cv_status::timeout;
      if (error_) throw Error(*error_);
      if (late && std::chrono::steady_clock::now() >= until)
        throw Error(ErrorCode::no_progress, "no update was completed in time: too few towers push");
    }
    take(side);
  }

  /// Its token goes to the others, so that those that are left can still complete updates.
  void leave(int tower) override {
    const std::lock_guard lock(mutex_);
    tokens_.give_back(local_[static_cast<std::size_t>(tower)]);
    changed_.notify_all();
  }

  void fail(const Error& error) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_all();
  }

  bool synchronous() const noexcept override { return false; }

  std::uint64_t step() const override {
    const std::lock_guard lock(mutex_);
    return tokens_.step();
  }

  StrategyStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  /// Towers come back with the same step, and what had not made an update by then is dropped.
  void settle() override {
    stats_.applied -= pushed_;
    stats_.dropped += pushed_;
    begin_update();
    tokens_.restart(tokens_.step());
    local_.assign(local_.size(), tokens_.step());
    for (HostSide& side : sides_) take(side);
  }

  Slots slots(std::size_t variable) override { return updater_.slots(variable); }

  void restore(std::uint64_t step) override {
    for (std::size_t v = 0; v < copies_.size(); ++v)
      std::ranges::copy(on_host(store_.gpu(0), store_.of(0)[v]->value).values(),
                        copies_[v]->value.data());
    tokens_.restart(step);
    settle();
  }

 private:
  void add(std::span<Variable* const> mine, std::int64_t rows) {
    ++pushed_;
    ++stats_.applied;
    const double weight = options_.combine == Combine::sum ? 1 : static_cast<double>(rows);
    for (std::size_t v = 0; v < mine.size(); ++v) {
      Variable& copy = *copies_[v];
      if (!mine[v]->trainable) std::ranges::copy(mine[v]->value.values(), copy.value.data());
      if (!mine[v]->has_gradient || weight == 0) continue;
      const auto factor = static_cast<float>(weight);
      copy.accumulate();
      for (std::size_t i = 0; i < copy.gradient.size(); ++i)
        copy.gradient.data()[i] += factor * mine[v]->gradient.data()[i];
      weights_[v] += weight;
    }
  }

  void make_update() {
    if (options_.combine == Combine::average)
      for (std::size_t v = 0; v < copies_.size(); ++v)
        if (copies_[v]->has_gradient)
          for (float& value : copies_[v]->gradient.values())
            value /= static_cast<float>(weights_[v]);
    updater_.apply(copies_view_, tokens_.step());
    tokens_.updated();
    begin_update();
    changed_.notify_all();
  }

  void begin_update() {
    pushed_ = 0;
    weights_.assign(weights_.size(), 0);
    for (Variable* copy : copies_view_) {
      copy->has_gradient = false;
      copy->gradient.fill(0);
    }
  }

  void take(HostSide& side) const {
    for (std::size_t v = 0; v < copies_.size(); ++v)
      std::ranges::copy(copies_[v]->value.values(), side.variables()[v]->value.data());
    side.give();
  }

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
  std::optional<Error> error_;
  StrategyStats stats_;
};

}  // namespace

StrategyPtr make_sync_replicas(VariableStore& store, const StrategyOptions& options) {
  if (options.aggregate < 0)
    throw Error(ErrorCode::invalid_argument,
                "sync_replicas can't aggregate less than one gradient");
  return std::make_unique<SyncReplicas>(store, options);
}

}  // namespace penstock::towers
