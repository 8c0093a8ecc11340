#include "tools/penstock/report/meter.h"

#include <algorithm>
#include <utility>

#include "report/pace.h"

namespace penstock::tool {
namespace {

constexpr std::size_t kMostHistory = 512;

double rate(std::uint64_t before, std::uint64_t after, double seconds) {
  return after > before ? static_cast<double>(after - before) / seconds : 0;
}

TowerRate tower_rate(const TowerStats& before, const TowerStats& after, double seconds) {
  // The tower's own time, which is known up to the end of its last step.
  const double own = after.wall_s - before.wall_s;
  const auto share = [own](double from, double to) {
    return own > 0 ? std::clamp((to - from) / own, 0.0, 1.0) : 0.0;
  };
  TowerRate tower{after.device, rate(before.steps, after.steps, seconds),
                  share(before.step_s, after.step_s), share(before.stall_s, after.stall_s), ""};
  double longest = 0;
  for (const auto& [name, now_s] : after.causes) {
    double waited = now_s;
    for (const auto& [known, then_s] : before.causes)
      if (known == name) waited -= then_s;
    if (waited <= longest) continue;
    longest = waited;
    tower.cause = name;
  }
  return tower;
}

WorkerRate worker_rate(const Stats& first, const WorkerStats& after, double seconds) {
  WorkerRate worker{.address = after.address,
                    .connected = after.connected,
                    .shared = after.shared,
                    .hedged = after.hedged,
                    .lost = after.lost,
                    .problem = after.problem};
  const auto known = std::ranges::find(first.workers, after.address, &WorkerStats::address);
  const WorkerStats before = known != first.workers.end() ? *known : WorkerStats{};
  worker.elements_per_s = rate(before.elements, after.elements, seconds);
  worker.bytes_per_s = rate(before.received_bytes, after.received_bytes, seconds);
  worker.busy_share =
      std::clamp((after.busy_s - before.busy_s) / (seconds * std::max(1, after.threads)), 0.0, 1.0);
  // The mean of the answers between the two snapshots, from the means of all answers up to each.
  const double answers = static_cast<double>(after.groups) - static_cast<double>(before.groups);
  const double sum = after.round_trip_s * static_cast<double>(after.groups) -
                     before.round_trip_s * static_cast<double>(before.groups);
  worker.round_trip_s = answers > 0 ? std::max(0.0, sum / answers) : after.round_trip_s;
  return worker;
}

}  // namespace

void Meter::add(double now_s, const Stats& stats, std::vector<TowerStats> towers) {
  if (!snapshots_.empty() && now_s - history_at_s_ >= window_s_ / 4) {
    history_.push_back(rate(history_elements_, stats.elements, now_s - history_at_s_));
    if (history_.size() > kMostHistory) history_.pop_front();
    history_at_s_ = now_s;
    history_elements_ = stats.elements;
  } else if (snapshots_.empty()) {
    history_at_s_ = now_s;
    history_elements_ = stats.elements;
  }
  snapshots_.push_back({now_s, stats, std::move(towers)});
  while (snapshots_.size() > 2 && snapshots_[1].at_s <= now_s - window_s_) snapshots_.pop_front();
}

Rates Meter::rates() const {
  Rates rates;
  if (snapshots_.empty()) return rates;
  const Snapshot& first = snapshots_.front();
  const Snapshot& last = snapshots_.back();
  const double seconds = last.at_s - first.at_s;
  for (const StageStats& stage : last.stats.stages)
    rates.stages.push_back({stage.name, 0, 0, 0, stage.waits_on});
  rates.threads = all_threads(last.stats);
  if (seconds <= 0 || first.stats.stages.size() != last.stats.stages.size()) return rates;
  rates.elements_per_s = rate(first.stats.elements, last.stats.elements, seconds);
  for (std::size_t i = 0; i < rates.stages.size(); ++i) {
    const StageStats& before = first.stats.stages[i];
    const StageStats& after = last.stats.stages[i];
    rates.stages[i].items_per_s = rate(before.items, after.items, seconds);
    rates.stages[i].busy_threads = std::max(0.0, after.busy_s - before.busy_s) / seconds;
    rates.stages[i].wait_threads = std::max(0.0, after.wait_s - before.wait_s) / seconds;
    rates.bytes_per_s = rate(before.bytes, after.bytes, seconds);
  }
  for (const WorkerStats& worker : last.stats.workers)
    rates.workers.push_back(worker_rate(first.stats, worker, seconds));
  if (first.towers.size() != last.towers.size()) return rates;
  for (std::size_t t = 0; t < last.towers.size(); ++t)
    rates.towers.push_back(tower_rate(first.towers[t], last.towers[t], seconds));
  return rates;
}

std::vector<double> Meter::history(std::size_t count) const {
  const std::size_t taken = std::min(count, history_.size());
  return {history_.end() - static_cast<std::ptrdiff_t>(taken), history_.end()};
}

void Timeline::add(double now_s, const Stats& stats, const std::vector<TowerStats>& towers) {
  if (given_++ % every_ != 0) return;
  if (snapshots_.size() == kMost) {
    for (std::size_t i = 0; i < kMost / 2; ++i) snapshots_[i] = std::move(snapshots_[2 * i]);
    snapshots_.resize(kMost / 2);
    every_ *= 2;
  }
  Snapshot snapshot{now_s, stats.elements, stats.memory.used_bytes, {}, {}};
  for (const StageStats& stage : stats.stages) snapshot.busy_s.push_back(stage.busy_s);
  for (const TowerStats& tower : towers) snapshot.stall_s.push_back(tower.stall_s);
  snapshots_.push_back(std::move(snapshot));
}

std::vector<Timeline::Point> Timeline::points() const {
  std::vector<Point> points;
  const std::size_t count = snapshots_.size();
  // The last snapshot is taken at the end of the run, perhaps shortly after the one before. One
  // batch between these would look like a very high rate.
  const auto span = [this](std::size_t i) { return snapshots_[i].at_s - snapshots_[i - 1].at_s; };
  const bool short_end = count > 2 && span(count - 1) < 0.5 * span(count - 2);
  for (std::size_t i = 1; i < count; ++i) {
    if (short_end && i == count - 2) continue;
    const Snapshot& before = snapshots_[short_end && i == count - 1 ? i - 2 : i - 1];
    const Snapshot& after = snapshots_[i];
    const double seconds = after.at_s - before.at_s;
    if (seconds <= 0 || before.busy_s.size() != after.busy_s.size()) continue;
    Point point{
        after.at_s, rate(before.elements, after.elements, seconds), after.memory_bytes, {}, {}};
    for (std::size_t k = 0; k < after.busy_s.size(); ++k)
      point.busy_threads.push_back(std::max(0.0, after.busy_s[k] - before.busy_s[k]) / seconds);
    for (std::size_t k = 0; k < std::min(before.stall_s.size(), after.stall_s.size()); ++k)
      point.stall_shares.push_back(
          std::clamp((after.stall_s[k] - before.stall_s[k]) / seconds, 0.0, 1.0));
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace penstock::tool
