// How long to be careful after each setback.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock {

/// Counts steps between setbacks. After the first one, one step is careful, after the next one two,
/// then four, and so on, or half as many if it went well for long in between. So setbacks are rare,
/// however often there is a reason for one. Not synchronised.
class Setbacks {
 public:
  /// A step that was not careful went well.
  void pass() noexcept { ++passed_; }
  /// There was a setback. Returns the number of steps to be careful for.
  std::uint64_t add() noexcept {
    constexpr std::uint64_t kMost = 1 << 20;
    constexpr std::uint64_t kWorthIt = 8;
    if (passed_ >= kWorthIt * careful_) {
      careful_ = std::max<std::uint64_t>(careful_ / 2, 1);
    } else {
      careful_ = std::min(std::max<std::uint64_t>(2 * careful_, 1), kMost);
    }
    passed_ = 0;
    return careful_;
  }

 private:
  std::uint64_t careful_ = 0;  // as returned last
  std::uint64_t passed_ = 0;   // since then
};

}  // namespace penstock
