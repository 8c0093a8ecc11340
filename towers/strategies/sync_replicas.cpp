#include "towers/strategies/sync_replicas.h"

#include <algorithm>
#include <chrono>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"

namespace penstock::towers {

SyncReplicas::SyncReplicas(VariableStore& store, const StrategyOptions& options)
    : store_(store),
      options_(options),
      sides_(host_sides(store)),
      copies_(copies_of(store)),
      copies_view_(view_of(copies_)),
      updater_(copies_view_, options.update),
      tokens_(store.towers(), options.aggregate > 0 ? options.aggregate : store.towers()),
      local_(static_cast<std::size_t>(store.towers())),
      weights_(store.of(0).size()) {}

void SyncReplicas::push(int tower, std::int64_t rows) {
  HostSide& side = sides_[static_cast<std::size_t>(tower)];
  side.fetch();
  const std::lock_guard lock(mutex_);
  if (!error_.ok()) throw Error(error_.error());
  const ReplicaTokens::Push what = tokens_.push(local_[static_cast<std::size_t>(tower)]);
  if (what == ReplicaTokens::Push::dropped) {
    ++stats_.dropped;
  } else {
    add(side.variables(), rows);
    if (what == ReplicaTokens::Push::completed) make_update();
  }
}

bool SyncReplicas::take(int tower) {
  const std::lock_guard lock(mutex_);
  if (!error_.ok()) throw Error(error_.error());
  const auto t = static_cast<std::size_t>(tower);
  if (!tokens_.take(local_[t])) return false;
  give(sides_[t]);
  return true;
}

void SyncReplicas::update(int tower, std::int64_t rows) {
  push(tower, rows);
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.timeout_s);
  const auto t = static_cast<std::size_t>(tower);
  std::unique_lock lock(mutex_);
  while (error_.ok() && !tokens_.take(local_[t]))
    if (changed_.wait_until(lock, until) == std::cv_status::timeout && error_.ok() &&
        !tokens_.ready())
      throw Error(ErrorCode::no_progress, "no update was completed in time: too few towers push");
  if (!error_.ok()) throw Error(error_.error());
  give(sides_[t]);
}

void SyncReplicas::leave(int tower) {
  const std::lock_guard lock(mutex_);
  tokens_.give_back(local_[static_cast<std::size_t>(tower)]);
  changed_.notify_all();
}

void SyncReplicas::fail(const Status& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_.ok()) error_ = error;
  changed_.notify_all();
}

std::uint64_t SyncReplicas::step() const {
  const std::lock_guard lock(mutex_);
  return tokens_.step();
}

StrategyStats SyncReplicas::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void SyncReplicas::settle() {
  stats_.applied -= pushed_;
  stats_.dropped += pushed_;
  begin_update();
  tokens_.restart(tokens_.step());
  local_.assign(local_.size(), tokens_.step());
  for (HostSide& side : sides_) give(side);
}

void SyncReplicas::restore(std::uint64_t step) {
  for (std::size_t v = 0; v < copies_.size(); ++v)
    std::ranges::copy(on_host(store_.gpu(0), store_.of(0)[v]->value).values(),
                      copies_[v]->value.data());
  tokens_.restart(step);
  settle();
}

void SyncReplicas::add(std::span<Variable* const> mine, std::int64_t rows) {
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

void SyncReplicas::make_update() {
  if (options_.combine == Combine::average)
    for (std::size_t v = 0; v < copies_.size(); ++v)
      if (copies_[v]->has_gradient)
        for (float& value : copies_[v]->gradient.values()) value /= static_cast<float>(weights_[v]);
  updater_.apply(copies_view_, tokens_.step());
  tokens_.updated();
  begin_update();
  changed_.notify_all();
}

void SyncReplicas::begin_update() {
  pushed_ = 0;
  weights_.assign(weights_.size(), 0);
  for (Variable* copy : copies_view_) {
    copy->has_gradient = false;
    copy->gradient.fill(0);
  }
}

void SyncReplicas::give(HostSide& side) const {
  for (std::size_t v = 0; v < copies_.size(); ++v)
    std::ranges::copy(copies_[v]->value.values(), side.variables()[v]->value.data());
  side.give();
}

StrategyPtr make_sync_replicas(VariableStore& store, const StrategyOptions& options) {
  if (options.aggregate < 0)
    throw Error(ErrorCode::invalid_argument,
                "sync_replicas can't aggregate less than one gradient");
  return std::make_unique<SyncReplicas>(store, options);
}

}  // namespace penstock::towers
