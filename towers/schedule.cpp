#include <penstock/towers/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <penstock/error.h>

#include "towers/numbers.h"

namespace penstock::towers {
namespace {

constexpr double kStart = 25;      // one_cycle: the maximum divided by the start
constexpr double kEnd = 25 * 1e4;  // one_cycle: the maximum divided by the end

/// Interpolates from a to b along half a cosine, at `share` of the way.
double along_cosine(double a, double b, double share) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * std::clamp(share, 0.0, 1.0))) / 2;
}

}  // namespace

Schedule Schedule::constant(double rate) {
  Schedule schedule;
  schedule.text_ = "constant:" + exact_text(rate);
  schedule.rate_ = rate;
  return schedule;
}

Schedule Schedule::parse(const std::string& text) {
  const NamedNumbers parsed = parse_named_numbers(text, "schedule");
  const std::size_t count = parsed.numbers.size();
  Schedule schedule;
  schedule.text_ = text;
  schedule.rate_ = parsed.at(0, -1);
  bool good = schedule.rate_ >= 0;
  if (parsed.name == "constant") {
    good = good && count == 1;
  } else if (parsed.name == "step") {
    schedule.kind_ = Kind::step;
    schedule.factor_ = parsed.at(1, -1);
    good = good && count == 3 && schedule.factor_ >= 0 && parsed.numbers[2] >= 1 &&
           parsed.numbers[2] < 1e15;
    if (good) schedule.every_ = static_cast<std::uint64_t>(parsed.numbers[2]);
  } else if (parsed.name == "cosine") {
    schedule.kind_ = Kind::cosine;
    good = good && count == 1;
  } else if (parsed.name == "one_cycle") {
    schedule.kind_ = Kind::one_cycle;
    schedule.warm_ = parsed.at(1, 0.3);
    good = good && count <= 2 && schedule.warm_ > 0 && schedule.warm_ < 1;
  } else {
    good = false;
  }
  if (!good)
    throw Error(ErrorCode::invalid_argument,
                "schedule: expected constant:R, step:R:FACTOR:EVERY, cosine:R or "
                "one_cycle:R[:WARM], got " +
                    text);
  return schedule;
}

Schedule Schedule::over(std::uint64_t updates) const {
  Schedule copy = *this;
  copy.total_ = std::max<std::uint64_t>(1, updates);
  return copy;
}

bool Schedule::needs_total() const noexcept {
  return kind_ == Kind::cosine || kind_ == Kind::one_cycle;
}

double Schedule::at(std::uint64_t step) const {
  const double last = static_cast<double>(total_) - 1;
  const double now = std::min(static_cast<double>(step), last);
  switch (kind_) {
    case Kind::step: {
      const std::uint64_t drops = step / every_;
      return rate_ * std::pow(factor_, static_cast<double>(drops));
    }
    case Kind::cosine:
      return along_cosine(rate_, 0, now / static_cast<double>(total_));
    case Kind::one_cycle: {
      const double top = warm_ * static_cast<double>(total_) - 1;
      if (now <= top) return along_cosine(rate_ / kStart, rate_, top > 0 ? now / top : 1);
      return along_cosine(rate_, rate_ / kEnd, last > top ? (now - top) / (last - top) : 1);
    }
    case Kind::constant:
      break;
  }
  return rate_;
}

}  // namespace penstock::towers
