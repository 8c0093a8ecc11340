// Evaluation of the test set: its loss, its accuracy, and the other fields of Evaluation. It runs
// on the training towers, or on a tower of its own at the same time.
#pragma once

#include <memory>
#include <optional>

#include <penstock/internal/start_thread.h>

#include "towers/train/tower_set.h"

namespace penstock::towers {

/// An evaluator on given towers. Every tower computes its share, and no row counts twice. Used by
/// one thread; any thread may call `cancel`.
class Evaluator {
 public:
  /// `towers` must outlive it.
  Evaluator(TowerSet& towers, const Dataset& test, const TrainOptions& options);
  Evaluation evaluate(std::uint64_t step);
  void cancel() noexcept { feed_.cancel(); }

 private:
  TowerSet& towers_;
  Feed feed_;
};

/// A tower that evaluates copies of the variables while others train. Used by one thread.
class ValidationTower {
 public:
  /// Makes the tower on options.validation_device.
  ValidationTower(const ModelMaker& make, const Dataset& test, const TrainOptions& options);
  ~ValidationTower();
  ValidationTower(const ValidationTower&) = delete;
  ValidationTower& operator=(const ValidationTower&) = delete;

  /// Copies the values of tower 0 in `from`, and starts to evaluate them on another thread.
  /// REQUIRES: the previous evaluation was taken.
  void begin(VariableStore& from, std::uint64_t step);
  /// True if an evaluation was begun and not yet taken.
  bool busy() const noexcept { return thread_.joinable(); }
  /// Waits for the evaluation and returns it. Throws its error, which names the validation tower.
  /// REQUIRES: busy().
  Evaluation take();
  /// Returns the variables of the last evaluation. REQUIRES: !busy().
  const VariableStore& variables() noexcept { return towers_.store(); }

 private:
  TowerSet towers_;
  Evaluator evaluator_;
  // Written by the thread until it is joined; so is error_.
  std::optional<Evaluation> result_;
  Status error_;
  Thread thread_;
};

}  // namespace penstock::towers
