#include "pipeline/http/send_rate.h"

#include <algorithm>
#include <cmath>

namespace penstock::http {
namespace {

constexpr double kCut = 0.7;
constexpr double kRegain = 3;     // seconds from a cut to the rate before it
constexpr double kForget = 60;    // seconds after which a cut limits nothing
constexpr double kBetween = 1;    // stores count requests by the second, and refuse its rest
constexpr double kLeast = 20;     // requests per second, so that an outage does not linger
constexpr double kMore = 20;      // by which the rate grows at least, each second
constexpr double kMostWait = 30;  // seconds of a Retry-After

}  // namespace

void SendRate::LastSecond::add(double now_s) noexcept {
  const auto time = static_cast<std::int64_t>(std::floor(now_s * kParts)) + 1;
  const auto at = static_cast<std::size_t>(((time % kParts) + kParts) % kParts);
  if (times_[at] != time) counts_[at] = 0;
  times_[at] = time;
  ++counts_[at];
}

double SendRate::LastSecond::count(double now_s) const noexcept {
  const auto time = static_cast<std::int64_t>(std::floor(now_s * kParts)) + 1;
  double sum = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i] > 0 && time - times_[i] < kParts) sum += counts_[i];
  return sum;
}

std::optional<double> SendRate::limit(double now_s) const noexcept {
  const double since = now_s - cut_at_;
  if (before_cut_ == 0 || since > kForget) return {};
  const double x = since / kRegain - 1;
  return std::max(before_cut_ * (1 + (1 - kCut) * x * x * x), kCut * before_cut_ + kMore * since);
}

double SendRate::next(double now_s) const noexcept {
  const double place = limit(now_s) ? next_ : now_s;
  return std::max({now_s, place, not_before_});
}

double SendRate::take(double now_s) noexcept {
  const double at = next(now_s);
  if (const std::optional<double> most = limit(now_s)) next_ = at + 1 / *most;
  sent_.add(at);
  return at;
}

void SendRate::good(double now_s) noexcept {
  ++goods_;
  good_.add(now_s);
}

void SendRate::throttled(double now_s, double sent_s,
                         std::optional<std::uint64_t> retry_after_s) noexcept {
  if (sent_s >= cut_at_ && now_s - cut_at_ >= kBetween) {
    const double before = limit(now_s).value_or(sent_.count(now_s));
    // The count of a whole second: a store that takes 500 a second may have taken them in 50 ms.
    before_cut_ = std::max({kLeast / kCut, good_.count(now_s), before / 2});
    cut_at_ = now_s;
    next_ = now_s + 1 / (kCut * before_cut_);
  }
  if (retry_after_s)
    not_before_ =
        std::max(not_before_, now_s + std::min(kMostWait, static_cast<double>(*retry_after_s)));
}

}  // namespace penstock::http
