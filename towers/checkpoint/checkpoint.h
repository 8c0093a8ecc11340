// Checkpoints of a training run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <penstock/internal/posix.h>
#include <penstock/towers/export.h>
#include <penstock/towers/strategy.h>
#include <penstock/towers/variables.h>

#include "towers/checkpoint/safetensors.h"
#include "towers/checkpoint/stored_checkpoints.h"

namespace penstock::towers {

/// The position of a run, without its variables.
struct RunPosition {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::string feed;  ///< Feed::save
  /// The settings that the run's results depend on, by name. A run that resumes must have the same.
  std::map<std::string, std::string> setting{};
  std::vector<std::string> classes{};  ///< names of classes, by label; empty: unknown
  std::string early_stop{};            ///< EarlyStop::save; empty: early stopping is off
  /// The step with the best result. Its checkpoint is kept besides the newest.
  std::optional<std::uint64_t> best_step{};
  std::string file{};  ///< the checkpoint that it was read from
};

/// Returns the digest of everything in a checkpoint except this number itself, which is stored as
/// "digest".
std::string digest_of(std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata);

/// A whole checkpoint in memory.
class StoredRun {
 public:
  /// `name`: name of the file, for errors. Throws Error{data_loss} if this is no whole checkpoint.
  StoredRun(std::string file, std::string name);
  /// Reads a checkpoint. Throws Error{data_loss} likewise, and Error{unavailable} naming a file
  /// that does not exist any more.
  static StoredRun read(const std::string& path);

  const std::string& name() const noexcept { return name_; }
  const std::string& bytes() const noexcept { return file_.bytes(); }
  std::uint64_t step() const;
  std::uint64_t epoch() const;
  std::uint64_t digest() const;
  /// Returns the digest of the variables alone, since a step may be saved twice, at different
  /// positions of the input.
  std::uint64_t variables_digest() const;
  /// Returns a setting; empty if the checkpoint does not have it.
  std::string setting(const std::string& key) const;
  /// Returns the names of classes, by label; empty if the checkpoint does not have them.
  std::vector<std::string> classes() const;
  /// Restores tower 0's variables and the strategy. Throws Error{invalid_argument} naming a setting
  /// or a variable that differs.
  RunPosition restore(VariableStore& store, Strategy& strategy,
                      const std::map<std::string, std::string>& setting) const;
  /// Restores the variables alone, for evaluation, whatever the run, strategy and optimizer of the
  /// checkpoint.
  void restore_variables(VariableStore& store) const;

 private:
  std::string name_;
  SafeTensors file_;
};

/// Checkpoints in a folder. Each one is a safetensors file with the variables, the state of
/// optimizers, and the position. The newest `keep` whole checkpoints are kept, and the best one.
/// Its file trainer.lock is locked for one run until that ends. A reader may find that a file is
/// removed while it reads. A folder of s3:// or gs:// has no lock: see StoredCheckpoints.
class Checkpoints {
 public:
  /// Makes the folder, and removes partly written files of killed runs. Throws Error{unavailable}
  /// naming the folder, also if another run uses it, and Error{invalid_argument} if `keep` is less
  /// than 1. `to_read`: only `newest` may be called, for checkpoints that another process of the
  /// job writes. Then nothing is made, locked or removed, and a folder that can't be read counts as
  /// empty.
  explicit Checkpoints(std::string folder, bool to_read = false, int keep = 2);
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Saves a checkpoint. Once it has returned, the checkpoint survives a crash. If it is
  /// interrupted, earlier checkpoints stay whole. Throws Error{unavailable | resource_exhausted}
  /// naming the file. If a variable has a value that is not a number, it keeps no checkpoint, and
  /// throws Error{diverged} naming the variable, or logs that if not `stop_if_diverged`. A
  /// successful save also removes the checkpoints that `newest` found damaged.
  void save(VariableStore& store, Strategy& strategy, const RunPosition& position,
            bool stop_if_diverged = true);
  /// Returns the newest whole checkpoint, or nothing if the folder has none. Skips a damaged one
  /// with a warning in the log. Throws Error{data_loss} if all are damaged.
  std::optional<StoredRun> newest();

 private:
  std::vector<CheckpointFile> files();
  /// Returns those of `all`, oldest first, that are no longer kept.
  std::vector<std::string> outdated(std::vector<CheckpointFile> all,
                                    const RunPosition& position) const;

  const std::string folder_;
  const bool to_read_;
  const std::size_t keep_;
  std::optional<StoredCheckpoints> store_;  // set if the folder is in a store
  std::set<std::string> damaged_;
  UniqueFd lock_;  // the locked file in the folder
};

}  // namespace penstock::towers
