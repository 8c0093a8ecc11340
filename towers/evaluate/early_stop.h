// The rule that ends training when evaluations stop improving.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <penstock/towers/evaluation.h>

namespace penstock::towers {

/// A count of the evaluations since the best one. Not synchronised.
class EarlyStop {
 public:
  /// `patience` is the number of evaluations that may pass without one that is better than all
  /// before; 0 means any number.
  EarlyStop(int patience, Measure by) : patience_(patience), by_(by) {}

  /// Takes an evaluation. One whose figure is not finite is never better.
  void take(const Evaluation& evaluation);
  /// True if the patience is used up.
  bool due() const noexcept { return patience_ > 0 && since_ >= patience_; }
  /// Returns the number of updates before the best evaluation; nothing if there is none yet.
  std::optional<std::uint64_t> best_step() const noexcept { return best_step_; }

  /// Save and restore the state as text, for a checkpoint. State of another measure is ignored.
  /// `restore` throws Error{data_loss} for any other text.
  std::string save() const;
  void restore(const std::string& kept);

 private:
  int patience_;
  Measure by_;
  double best_ = 0;
  std::optional<std::uint64_t> best_step_;
  int since_ = 0;  // evaluations since the best
};

}  // namespace penstock::towers
