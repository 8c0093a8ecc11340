// Loads the stored variables of a run, to evaluate them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/towers/trainer.h>

namespace penstock::towers {

struct StoredVariables {
  /// number of updates made to them; nothing: the file does not tell
  std::optional<std::uint64_t> step{};
  std::vector<std::string> classes{};  ///< names of classes, by label; empty: unknown
};

/// Gives tower 0's variables the values of an exported file, of a checkpoint, or of the newest
/// checkpoint in a folder. Throws Error{not_found} if there is none, Error{invalid_argument} naming
/// a variable of another shape, and Error{data_loss} for a damaged file.
StoredVariables load_stored(VariableStore& store, const std::string& path);

/// Evaluates stored variables on all of `test`, whose elements must be as the model takes them.
/// Labels are matched by name. Of `options`, it uses devices, batch, threads, precision, class
/// weights and feed. Throws the errors of `load_stored` and Trainer.
Evaluation evaluate_stored(const ModelMaker& make, const Dataset& test, TrainOptions options,
                           const std::string& path);

}  // namespace penstock::towers
