// The test set's loss and accuracy: on the towers that train, or on one of its own beside them.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "towers/tower_set.h"

namespace penstock::towers {

/// Every tower computes its share, and no row counts twice. Used by one thread; `cancel` by any.
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
  /// On options.validation_device.
  ValidationTower(const ModelMaker& make, const Dataset& test, const TrainOptions& options);
  ~ValidationTower();
  ValidationTower(const ValidationTower&) = delete;
  ValidationTower& operator=(const ValidationTower&) = delete;

  /// Copies the values of `from`'s tower 0 and evaluates them, beside the caller. REQUIRES: what
  /// was begun before was taken.
  void begin(VariableStore& from, std::uint64_t step);
  /// True if an evaluation was begun and not taken.
  bool busy() const noexcept { return thread_.joinable(); }
  /// Waits for it. Throws what went wrong, naming the validation tower. REQUIRES: busy().
  Evaluation take();

 private:
  TowerSet towers_;
  Evaluator evaluator_;
  std::optional<Evaluation> result_;  // by the thread until it is joined, as error_
  Status error_;
  std::jthread thread_;
};

}  // namespace penstock::towers
