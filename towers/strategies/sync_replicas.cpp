#include "towers/strategies/sync_replicas.h"

#include <algorithm>
#include <chrono>

#include <penstock/error.h>

#include "towers/gpu/gpu.h"
#include "towers/strategies/contributions.h"
#include "towers/strategies/kinds.h"

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
      contributions_(
          static_cast<std::size_t>(options.aggregate > 0 ? options.aggregate : store.towers())) {
  for (Contribution& contribution : contributions_) {
    for (const Variable* copy : copies_view_) contribution.values.emplace_back(copy->value.shape());
    contribution.has_value.resize(copies_view_.size());
  }
}

void SyncReplicas::push(int tower, std::int64_t rows) {
  HostSide& side = sides_[static_cast<std::size_t>(tower)];
  side.fetch();
  const MutexLock lock(mutex_);
  push_locked(tower, rows);
}

void SyncReplicas::push_locked(int tower, std::int64_t rows) {
  if (!error_.ok()) throw Error(error_.error());
  const ReplicaTokens::Push what = tokens_.push(local_[static_cast<std::size_t>(tower)]);
  if (what == ReplicaTokens::Push::dropped) {
    ++stats_.dropped;
  } else {
    add(tower, sides_[static_cast<std::size_t>(tower)].variables(), rows);
    if (what == ReplicaTokens::Push::completed) make_update();
  }
}

bool SyncReplicas::take(int tower) {
  const auto t = static_cast<std::size_t>(tower);
  {
    const MutexLock lock(mutex_);
    if (!error_.ok()) throw Error(error_.error());
    if (!tokens_.take(local_[t])) return false;
    copy_values(sides_[t]);
  }
  sides_[t].give();
  return true;
}

bool SyncReplicas::is_next(std::uint64_t place) const {
  return place == first_in_line_ && tokens_.ready();
}

void SyncReplicas::update(int tower, std::int64_t rows) {
  const auto t = static_cast<std::size_t>(tower);
  sides_[t].fetch();
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.timeout_s);
  {
    const MutexLock lock(mutex_);
    // Take a place in the queue before the update is made. Otherwise a faster tower could take the
    // token of one that waits.
    const std::uint64_t place = last_in_line_ + 1;
    push_locked(tower, rows);
    last_in_line_ = place;
    while (error_.ok() && !is_next(place))
      if (!changed_.wait_until(mutex_, until) && error_.ok() && !is_next(place))
        error_ =
            Error(ErrorCode::no_progress, "no update was completed in time: too few towers push");
    if (!error_.ok()) {
      changed_.notify_all();
      throw Error(error_.error());
    }
    tokens_.take(local_[t]);
    ++first_in_line_;
    changed_.notify_all();
    copy_values(sides_[t]);
  }
  sides_[t].give();
}

void SyncReplicas::leave(int tower) {
  const MutexLock lock(mutex_);
  tokens_.give_back(local_[static_cast<std::size_t>(tower)]);
  changed_.notify_all();
}

void SyncReplicas::fail(const Status& error) noexcept {
  const MutexLock lock(mutex_);
  if (error_.ok()) error_ = error;
  changed_.notify_all();
}

std::uint64_t SyncReplicas::step() const {
  const MutexLock lock(mutex_);
  return tokens_.step();
}

StrategyStats SyncReplicas::stats() const {
  const MutexLock lock(mutex_);
  return stats_;
}

void SyncReplicas::settle() {
  {
    const MutexLock lock(mutex_);
    stats_.applied -= pushed_;
    stats_.dropped += pushed_;
    drop_pushed();
    first_in_line_ = last_in_line_ + 1;
    tokens_.restart(tokens_.step());
    local_.assign(local_.size(), tokens_.step());
    for (const HostSide& side : sides_) copy_values(side);
  }
  for (HostSide& side : sides_) side.give();
}

Slots SyncReplicas::slots(std::size_t variable) {
  const MutexLock lock(mutex_);
  return updater_.slots(variable);
}

void SyncReplicas::restore(std::uint64_t step) {
  {
    const MutexLock lock(mutex_);
    for (std::size_t v = 0; v < copies_.size(); ++v)
      std::ranges::copy(on_host(store_.gpu(0), store_.of(0)[v]->value).values(),
                        copies_[v]->value.data());
    tokens_.restart(step);
  }
  settle();
}

void SyncReplicas::add(int tower, std::span<Variable* const> mine, std::int64_t rows) {
  Contribution& contribution = contributions_[pushed_++];
  ++stats_.applied;
  contribution.tower = tower;
  contribution.rows = rows;
  for (std::size_t v = 0; v < mine.size(); ++v) {
    const bool has = !mine[v]->trainable || (mine[v]->has_gradient && rows > 0);
    contribution.has_value[v] = has ? 1 : 0;
    const Array& from = mine[v]->trainable ? mine[v]->gradient : mine[v]->value;
    if (has) std::ranges::copy(from.values(), contribution.values[v].data());
  }
}

void SyncReplicas::make_update() {
  const auto end = contributions_.begin() + static_cast<std::ptrdiff_t>(pushed_);
  std::stable_sort(contributions_.begin(), end,
                   [](const Contribution& a, const Contribution& b) { return a.tower < b.tower; });
  for (std::size_t v = 0; v < copies_.size(); ++v) {
    if (copies_[v]->trainable) {
      combine(v);
    } else {  // as in strategies with values for each tower: the first's are kept
      std::ranges::copy(contributions_.front().values[v].values(), copies_[v]->value.data());
    }
  }
  updater_.apply(copies_view_, tokens_.step());
  tokens_.updated();
  drop_pushed();
  changed_.notify_all();
}

void SyncReplicas::combine(std::size_t variable) {
  std::vector<PushedGradient> gradients;
  for (Contribution& one : std::span(contributions_.data(), pushed_))
    gradients.push_back({one.rows, one.values[variable].data(), one.has_value[variable] != 0});
  Variable& copy = *copies_[variable];
  copy.has_gradient = add_up_pushed(gradients, copy.gradient.size(), options_.combine);
  if (copy.has_gradient)
    std::copy_n(gradients.front().values, copy.gradient.size(), copy.gradient.data());
}

void SyncReplicas::drop_pushed() {
  pushed_ = 0;
  for (Variable* copy : copies_view_) copy->has_gradient = false;
}

void SyncReplicas::copy_values(const HostSide& to) const {
  for (std::size_t v = 0; v < copies_.size(); ++v)
    std::ranges::copy(copies_[v]->value.values(), to.variables()[v]->value.data());
}

StrategyPtr make_sync_replicas(VariableStore& store, const StrategyOptions& options) {
  if (options.aggregate < 0)
    throw Error(ErrorCode::invalid_argument,
                "sync_replicas can't aggregate less than one gradient");
  return std::make_unique<SyncReplicas>(store, options);
}

}  // namespace penstock::towers
