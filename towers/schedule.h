// The learning rate over time.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::towers {

/// A function of the update's number. A value type.
///
///     Schedule::parse("one_cycle:0.05").over(1000).at(300);   // 0.05, the top
class Schedule {
 public:
  static Schedule constant(double rate);
  /// "constant:R"; "step:R:FACTOR:EVERY", times FACTOR after each EVERY updates; "cosine:R", from R
  /// down to 0 (Loshchilov and Hutter, 2017, without restarts); "one_cycle:R[:WARM]", from R/25 up
  /// to R over the first WARM (0.3) of the updates and down to R/250,000, along cosines (Smith and
  /// Topin, 2018, as PyTorch has it). Throws Error{invalid_argument} for anything else.
  static Schedule parse(const std::string& text);

  /// The same for so many updates in all, which cosine and one_cycle need to know.
  Schedule over(std::uint64_t updates) const;
  /// Rate of update `step`, from 0; behind the last that of the last. Never negative.
  double at(std::uint64_t step) const;
  /// True if it must be told how many updates there are.
  bool needs_total() const noexcept;
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
