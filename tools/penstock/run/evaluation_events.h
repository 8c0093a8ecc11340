// The evaluations that TensorBoard shows next to training.
#pragma once

#include <string>
#include <vector>

#include "towers/evaluate/evaluation_log.h"

namespace penstock::tool {

/// Writes a file of "loss", "accuracy" and the other figures over steps. It is in the folder "eval"
/// below the folder of training, so TensorBoard draws both into the same charts. The file is made
/// from the log of evaluations. So each evaluation is in it once, however often evaluators are
/// killed: an incomplete file is written again. Not synchronised.
class EvaluationEvents {
 public:
  explicit EvaluationEvents(std::string folder) : folder_(std::move(folder)) {}
  /// Writes all evaluations. Throws Error{unavailable | resource_exhausted} that names the file.
  void write(const std::vector<towers::RecordedEvaluation>& all) const;

 private:
  const std::string folder_;
};

}  // namespace penstock::tool
