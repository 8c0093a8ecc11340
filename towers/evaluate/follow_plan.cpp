#include "towers/evaluate/follow_plan.h"

#include <iterator>

namespace penstock::towers {
namespace {

double seconds_from(FollowPlan::Time from, FollowPlan::Time to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

FollowPlan::FollowPlan(FollowOptions options, Time start, std::optional<Time> last_began)
    : options_(options), start_(start), last_began_(last_began), heard_(start) {}

FollowPlan::Next FollowPlan::next(const Seen& seen, Time now) {
  const std::optional<std::uint64_t> newest =
      seen.kept.empty() ? std::nullopt : std::optional(seen.kept.back().step);
  if (seen.trained_into || newest != newest_) heard_ = now;
  newest_ = newest;
  const std::optional<std::size_t> one = candidate(seen);
  if (seen.last_step && !one && seen.last_evaluated) return {What::end, 0};
  if (one && (seen.last_step || may_evaluate(now))) return {What::evaluate, *one};
  // A checkpoint that waits for delay or throttle does not count as a timeout.
  if (!one && quiet_s(now) >= options_.timeout_s) return {What::give_up, 0};
  return {};
}

double FollowPlan::quiet_s(Time now) const {
  return seconds_from(heard_, now);
}

std::optional<std::size_t> FollowPlan::candidate(const Seen& seen) const {
  if (options_.throttle_s > 0) {
    // Checkpoints before an evaluated one were skipped.
    if (seen.kept.empty() || seen.kept.back().evaluated) return std::nullopt;
    return seen.kept.size() - 1;
  }
  for (std::size_t i = 0; i < seen.kept.size(); ++i)
    if (!seen.kept[i].evaluated) return i;
  return std::nullopt;
}

bool FollowPlan::may_evaluate(Time now) const {
  return seconds_from(start_, now) >= options_.start_delay_s &&
         (!last_began_ || seconds_from(*last_began_, now) >= options_.throttle_s);
}

}  // namespace penstock::towers
