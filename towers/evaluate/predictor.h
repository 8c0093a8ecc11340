// Predictions of trained variables for new rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <penstock/element.h>

#include "towers/checkpoint/stored_variables.h"
#include "towers/train/tower_set.h"

namespace penstock::towers {

/// A model on the host, with the variables of a finished run. Used by one thread.
class Predictor {
 public:
  /// Loads `variables`, see `load_stored`, whose errors this throws too. `threads` is the number of
  /// threads that compute; 0 means all of the machine.
  Predictor(const ModelMaker& make, const std::string& variables, int threads);

  const StoredVariables& stored() const noexcept { return stored_; }
  /// Returns the scores f32 [rows,n] (Model::scores) of a batch of elements. The elements must be
  /// as the model takes them, with labels, which may be any of the classes. The result is valid
  /// until the next call. Throws Error{invalid_argument} for a model that has no scores.
  const Array& scores(const Element& batch);

 private:
  const TrainOptions options_;
  TowerSet towers_;
  StoredVariables stored_;
  Array scores_;
};

}  // namespace penstock::towers
