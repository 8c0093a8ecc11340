// The results of an evaluator, stored in the checkpoint folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/internal/posix.h>
#include <penstock/towers/trainer.h>

namespace penstock::towers {

struct RecordedEvaluation {
  Evaluation evaluation{};
  std::uint64_t epoch = 0;
  std::uint64_t digest = 0;  ///< of the variables
  double began = 0;          ///< seconds since 1970
  double seconds = 0;        ///< duration
};

/// The file "evaluations.jsonl": a JSON object for each evaluated checkpoint, in the order of
/// evaluation. It is complete whenever the process is killed. So a checkpoint in it was evaluated
/// once, and a checkpoint that is not in it was not evaluated. One process at a time holds it. Not
/// synchronised.
class EvaluationLog {
 public:
  /// Makes the folder if the training process has not done so yet, and reads earlier results.
  /// Throws Error{unavailable} that names the folder if it cannot be used or another evaluator
  /// holds it. Throws Error{data_loss} that names the line if the file is damaged.
  explicit EvaluationLog(const std::string& folder);

  const std::vector<RecordedEvaluation>& all() const noexcept { return all_; }
  bool has(std::uint64_t step, std::uint64_t digest) const;
  /// Adds an evaluation, which survives a crash once this returns. Throws what `write_durably`
  /// throws.
  void add(const RecordedEvaluation& one);

 private:
  std::string path_;
  UniqueFd lock_;
  std::string text_;
  std::vector<RecordedEvaluation> all_;
};

}  // namespace penstock::towers
