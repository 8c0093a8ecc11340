#include "staging/ledger.h"

#include <algorithm>

namespace penstock {
namespace {

std::int64_t overlap(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return std::max<std::int64_t>(0, std::min(b, d) - std::max(a, c));
}

double seconds(std::int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

}  // namespace

void FeederTimeline::add(Doing doing, int tower, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return;
  MutexLock lock(mutex_);
  spans_[added_++ % kKept] = {doing, tower, begin, end};
}

FeederTimeline::Share FeederTimeline::during(int tower, std::int64_t begin,
                                             std::int64_t end) const {
  Share share;
  MutexLock lock(mutex_);
  for (std::uint64_t i = added_; i > 0 && added_ - i < kKept; --i) {
    const Span& span = spans_[(i - 1) % kKept];
    if (span.end <= begin) break;
    const std::int64_t here = overlap(begin, end, span.begin, span.end);
    if (span.doing == Doing::upstream) {
      share.upstream += here;
    } else {
      (span.tower == tower ? share.own_room : share.others_room) += here;
    }
  }
  return share;
}

void TowerLedger::finished(const BatchTimes& times) noexcept {
  MutexLock lock(mutex_);
  const bool first = steps_++ == 0;
  elements_ += static_cast<std::uint64_t>(times.rows);
  const std::int64_t idle = std::max(times.passed, until_);  // the start of the step
  const std::int64_t begin = std::clamp(times.asked, until_, idle);
  copy_ns_ += times.ready - times.copy_begin;
  if (first) {
    other_ns_ += idle - until_;
  } else {
    other_ns_ += begin - until_;
    const std::int64_t put = std::clamp(times.put, begin, idle);
    const std::int64_t copying = std::clamp(times.copy_begin, put, idle);
    slots_ns_ += copying - put;
    copy_waited_ns_ += idle - copying;
    const FeederTimeline::Share share = feeder_.during(tower_, begin, put);
    slots_ns_ += share.own_room;
    other_tower_ns_ += share.others_room;
    // The remaining time of the feeder was spent in its own thread, on the way from the input.
    upstream_ns_ += put - begin - share.own_room - share.others_room;
  }
  const std::int64_t end = std::max(times.stepped, idle);
  step_ns_ += end - idle;
  until_ = end;
}

void TowerLedger::blame(const std::string& cause) {
  MutexLock lock(mutex_);
  if (upstream_ns_ > 0) upstream_of_[cause] += std::exchange(upstream_ns_, 0);
}

TowerStats TowerLedger::stats(const std::string& cause) const {
  TowerStats stats;
  MutexLock lock(mutex_);
  stats.steps = steps_;
  stats.elements = elements_;
  stats.wall_s = seconds(until_ - start_);
  stats.step_s = seconds(step_ns_);
  stats.other_s = seconds(other_ns_);
  stats.copy_s = seconds(copy_ns_);
  if (copy_ns_ > 0) {
    stats.copy_hidden_share = 1 - std::min(1.0, seconds(copy_waited_ns_) / seconds(copy_ns_));
  }
  std::map<std::string, std::int64_t> causes = upstream_of_;
  causes[cause] += upstream_ns_;
  causes["slots"] += slots_ns_;
  causes["copy"] += copy_waited_ns_;
  causes["other tower"] += other_tower_ns_;
  std::int64_t stall = 0;
  for (const auto& [name, nanoseconds] : causes) {
    stall += nanoseconds;
    if (nanoseconds > 0) stats.causes.emplace_back(name, seconds(nanoseconds));
  }
  stats.stall_s = seconds(stall);
  return stats;
}

}  // namespace penstock
