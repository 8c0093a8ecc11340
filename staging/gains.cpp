#include "staging/gains.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace penstock {

GainLedger::GainLedger(const Replay::Bounds& bounds)
    : bounds_(bounds), happened_(bounds, {}), base_(bounds, {}) {
  const auto towers = static_cast<std::size_t>(bounds.towers);
  BatchTimes missing;
  missing.rows = -1;
  next_.batches.assign(towers, missing);
  next_.given.resize(towers);
  MutexLock lock(mutex_);
  early_.resize(towers);
  add_world("copy", {.copies = true});
  add_world("slots", {.slots = true});
  for (int t = 0; t < bounds.towers && bounds.towers > 1; ++t)
    add_world("other tower", {.others = t}, t);
}

void GainLedger::add_world(std::string cause, const Replay::Without& without, int for_tower) {
  Replay::Without half = without;
  half.half = true;
  worlds_.push_back({std::move(cause), for_tower, Replay(bounds_, without), Replay(bounds_, half)});
}

// The parts are known from the first look on, which comes before the first step has ended.
void GainLedger::set_parts(const std::vector<InputPart>& parts) {
  MutexLock lock(mutex_);
  if (parts_.empty()) {
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::string& cause = parts[p].cause;
      add_world(cause, {.budget = cause == "budget", .part = static_cast<int>(p)});
    }
  }
  parts_ = parts;
}

void GainLedger::close() {
  const auto given =
      static_cast<std::size_t>(std::count(next_.given.begin(), next_.given.end(), true));
  {
    MutexLock lock(mutex_);
    if (pending_.size() >= kMostPending) lost_ = true;
    if (!lost_) {
      Pending step;
      if (!spare_.empty()) {
        step = std::move(spare_.back());
        spare_.pop_back();
      }
      step.times = next_;
      step.missing = given;
      for (std::size_t t = 0; t < early_.size(); ++t) {
        if (!next_.given[t] || early_[t].empty()) continue;
        step.times.batches[t] = early_[t].pop_front();
        --step.missing;
      }
      pending_.push_back(std::move(step));
      replay();
    }
  }
  next_.pulls.clear();
  std::fill(next_.given.begin(), next_.given.end(), false);
}

void GainLedger::finished(int tower, const BatchTimes& times) noexcept {
  const auto at = static_cast<std::size_t>(tower);
  MutexLock lock(mutex_);
  if (lost_) return;
  try {
    std::size_t i = 0;
    const auto waits = [&](const Pending& step) {
      return step.times.given[at] && step.times.batches[at].rows < 0;
    };
    while (i < pending_.size() && !waits(pending_[i])) ++i;
    if (i == pending_.size()) {
      early_[at].push_back(times);
      return;
    }
    pending_[i].times.batches[at] = times;
    --pending_[i].missing;
    replay();
  } catch (...) {
    lost_ = true;
  }
}

void GainLedger::replay() {
  while (!pending_.empty() && pending_.front().missing == 0) {
    Pending step = pending_.pop_front();
    happened_.measure(step.times, costs_);
    for (std::size_t i = 0; i < costs_.pulls.size(); ++i) {
      const PullTimes& pull = step.times.pulls[i];
      if (!pull.batch || pull.line > 0) continue;
      making_ns_ += pull.made < 0 ? costs_.pulls[i].take : costs_.pulls[i].make;
      ++made_;
    }
    base_.replay(step.times, costs_, parts_);
    for (World& world : worlds_) {
      world.replay.replay(step.times, costs_, parts_);
      world.half.replay(step.times, costs_, parts_);
    }
    spare_.push_back(std::move(step));
  }
}

double GainLedger::seconds_per_batch() const {
  MutexLock lock(mutex_);
  return made_ > 0 ? 1e-9 * static_cast<double>(making_ns_) / static_cast<double>(made_) : 0;
}

GainLedger::Gains GainLedger::of(int tower, bool half) const {
  Gains gains;
  MutexLock lock(mutex_);
  if (lost_) return gains;
  for (const World& world : worlds_) {
    if (world.for_tower >= 0 && world.for_tower != tower) continue;
    const Replay& replay = half ? world.half : world.replay;
    const std::int64_t gain = base_.stepped(tower) - replay.stepped(tower);
    if (gain > 0) gains.emplace_back(world.cause, 1e-9 * static_cast<double>(gain));
  }
  return gains;
}

namespace {

double gain_of(const GainLedger::Gains& gains, const std::string& cause) {
  const auto found = std::ranges::find(gains, cause, &std::pair<std::string, double>::first);
  return found == gains.end() ? 0 : found->second;
}

/// Returns the time until the last tower would have ended. Without the wait for other towers, all
/// take the time of the tower that gains most.
double wall_without(const std::string& cause, const std::vector<TowerStats>& towers,
                    const std::vector<GainLedger::Gains>& gains) {
  double last = 0;
  double first = INFINITY;
  for (std::size_t t = 0; t < towers.size(); ++t) {
    const double own = towers[t].wall_s - gain_of(gains[t], cause);
    last = std::max(last, own);
    first = std::min(first, own);
  }
  return cause == "other tower" ? first : last;
}

}  // namespace

FeedVerdict verdict_of(const std::vector<TowerStats>& towers,
                       const std::vector<GainLedger::Gains>& half) {
  constexpr double kWorthSaying = 0.02;
  double wall_s = 0;
  double elements = 0;
  std::set<std::string> causes;
  std::vector<GainLedger::Gains> whole;
  for (const TowerStats& tower : towers) {
    wall_s = std::max(wall_s, tower.wall_s);
    elements += static_cast<double>(tower.elements);
    for (const auto& [cause, seconds] : tower.gains) causes.insert(cause);
    whole.push_back(tower.gains);
  }
  const auto rate = [elements](double over_s) { return over_s > 0 ? elements / over_s : 0; };
  std::vector<FeedVerdict> known;
  double most = kWorthSaying * wall_s;
  for (const std::string& cause : causes) {
    const double without_s = wall_without(cause, towers, whole);
    known.push_back(
        {cause, wall_s - without_s, rate(without_s), rate(wall_without(cause, towers, half))});
    most = std::max(most, known.back().gain_s);
  }
  // Of the causes with about the same gain, takes the one for which half as much helps most.
  constexpr double kAlike = 0.95;
  FeedVerdict verdict;
  for (const FeedVerdict& each : known)
    if (each.gain_s > kWorthSaying * wall_s && each.gain_s >= kAlike * most &&
        each.rate_half > verdict.rate_half)
      verdict = each;
  return verdict;
}

}  // namespace penstock
