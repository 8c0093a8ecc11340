// The learning rate over time.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::towers {

/// A learning rate as a function of the update's number. A value type.
///
///     Schedule::parse("one_cycle:0.05").over(1000).at(300);   // 0.05, the top
class Schedule {
 public:
  /// Returns a schedule of one rate.
  static Schedule constant(double rate);
  /// Returns the schedule that `text` describes:
  ///
  ///   - "constant:R".
  ///
  ///   - "step:R:FACTOR:EVERY": R times FACTOR after each EVERY updates.
  ///
  ///   - "cosine:R": from R down to 0 (Loshchilov and Hutter, 2017, without restarts).
  ///
  ///   - "one_cycle:R[:WARM]": from R/25 up to R over the first WARM (0.3) of the updates, then
  ///     down to R/250,000, along cosines (Smith and Topin, 2018, as in PyTorch).
  ///
  /// Throws Error{invalid_argument} for anything else.
  static Schedule parse(const std::string& text);

  /// Returns the same schedule for this number of updates in all, which cosine and one_cycle need.
  Schedule over(std::uint64_t updates) const;
  /// Returns the rate of update `step`, counted from 0. Behind the last update it is the rate of
  /// the last. Never negative.
  double at(std::uint64_t step) const;
  /// Returns true if the schedule needs the number of updates.
  bool needs_total() const noexcept;
  /// Returns the text it was made from, or one with all digits. `parse` makes an equal schedule
  /// from it, without the number of updates.
  const std::string& describe() const noexcept { return text_; }

 private:
  enum class Kind { constant, step, cosine, one_cycle };
  Schedule() = default;

  std::string text_;
  Kind kind_ = Kind::constant;
  double rate_ = 0, factor_ = 1, warm_ = 0.3;
  std::uint64_t every_ = 1, total_ = 1;
};

}  // namespace penstock::towers
