// The difference between another process's clock and this one's.
#pragma once

#include <cstdint>

namespace penstock::cluster {

struct ClockOffset {
  /// By how much the other clock is ahead of this one.
  std::int64_t ahead_ns = 0;
  /// The error bound of `ahead_ns`: the true difference is within ± this value. -1: not known.
  std::int64_t within_ns = -1;
};

/// An estimate of a `ClockOffset` from questions and answers. The other clock was read after a
/// question was sent and before its answer arrived. So the quickest answer gives the tightest
/// bound, until clock drift has made it worse than a newer one. Not synchronised.
class ClockEstimate {
 public:
  /// Adds one exchange: the question was sent and its answer arrived at these times of this clock,
  /// and the other clock showed `there_ns` in between.
  void add(std::int64_t asked_ns, std::int64_t heard_ns, std::int64_t there_ns) noexcept {
    const std::int64_t within_ns = (heard_ns - asked_ns + 1) / 2;
    if (within_ns < 0) return;
    if (best_.within_ns >= 0 && within_ns > at(heard_ns).within_ns) return;
    best_ = {there_ns - (asked_ns + (heard_ns - asked_ns) / 2), within_ns};
    since_ns_ = heard_ns;
  }

  ClockOffset at(std::int64_t now_ns) const noexcept {
    // Assumed drift: one part in `kDrift`. Quartz clocks may be off by 50 millionths each.
    constexpr std::int64_t kDrift = 10'000;
    if (best_.within_ns < 0) return best_;
    return {best_.ahead_ns, best_.within_ns + (now_ns - since_ns_) / kDrift};
  }

 private:
  ClockOffset best_;
  std::int64_t since_ns_ = 0;
};

}  // namespace penstock::cluster
