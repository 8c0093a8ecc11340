// The flags of `penstock train` for evaluators, and the role evaluator.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/penstock/support/interrupts.h"
#include "towers/evaluate/follower.h"

namespace penstock::tool {

/// The destinations of an evaluator's results. An empty text means no output.
struct FollowOutputs {
  std::string json;    ///< a file, or "-"
  std::string events;  ///< a folder for TensorBoard
  bool quiet = false;
};

/// Adds the flags for evaluators to a command, and runs an evaluator.
class EvaluatorFlags {
 public:
  void add_to(CLI::App& app);

  const std::string& best() const noexcept { return options_.best; }
  /// Opens the file of --export-best, for runs in which rank 0 evaluates. Returns null without
  /// --export-best. BestExport explains `resume`.
  std::unique_ptr<towers::BestExport> open_best(bool resume) const;

  /// Evaluates the checkpoints of `train` and returns the exit code. Throws UsageError for missing
  /// flags, and the errors of towers::Follower.
  int follow(const towers::ModelKind& kind, const std::optional<Dataset>& test,
             const towers::TrainOptions& train, const FollowOutputs& outputs,
             Interrupts& interrupts) const;

 private:
  towers::FollowerOptions options_;
  towers::Measure best_by_ = towers::Measure::loss;
  const CLI::App* app_ = nullptr;
};

}  // namespace penstock::tool
