// A training run on disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "towers/safetensors.h"
#include "towers/strategies/strategy.h"
#include "towers/variables.h"

namespace penstock::towers {

/// Where a run stands, beside its variables.
struct RunPosition {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::string feed;  ///< Feed::save
  /// What the run's course depends on, by name: a run that goes on must have the same.
  std::map<std::string, std::string> setting{};
};

/// Checkpoints in a folder, each a safetensors file: variables, what optimizers remember, and the
/// position. The newest two that are whole are kept. The folder is locked for one run until that
/// ends.
class Checkpoints {
 public:
  /// Makes the folder, and removes what killed runs left half written in it. Throws
  /// Error{unavailable} naming it, also if another run has it.
  explicit Checkpoints(std::string folder);
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  ~Checkpoints();

  /// When it returns the checkpoint survives a crash; whenever it is interrupted, those before are
  /// whole. What `restore` found damaged is removed then. Throws Error{unavailable |
  /// resource_exhausted} naming the file.
  void save(VariableStore& store, Strategy& strategy, const RunPosition& position);
  /// Restores tower 0's variables and the strategy from the newest whole checkpoint; nothing if
  /// there is none. A damaged one is passed over with a warning through the log; if all are, throws
  /// Error{data_loss}. Throws Error{invalid_argument} naming a setting or a variable that differs.
  std::optional<RunPosition> restore(VariableStore& store, Strategy& strategy,
                                     const std::map<std::string, std::string>& setting);

 private:
  std::vector<std::string> files() const;  // oldest first

  const std::string folder_;
  std::set<std::string> damaged_;
  int lock_ = -1;  // a descriptor of the folder
};

/// Writes tower 0's variables alone to `path`, durably.
void export_variables(const VariableStore& store, const std::string& path);

/// Gives tower 0's variables the values of such a file. Throws Error{not_found} or
/// Error{invalid_argument} naming a variable that it lacks or has in another shape.
void import_variables(VariableStore& store, const std::string& path);

}  // namespace penstock::towers
