// The flags of `penstock train`, `evaluate` and `predict` for their data and the way to read
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <penstock/dataset.h>
#include <penstock/iterator.h>
#include <penstock/towers/class_weights.h>
#include <penstock/towers/model.h>

#include "pipelines/pipeline_spec.h"
#include "tools/penstock/commands/columns_flag.h"
#include "tools/penstock/run/model_folder.h"
#include "tools/penstock/run/train_data.h"

namespace penstock::tool {

/// The purpose for which a command reads data.
enum class DataUse {
  train,     ///< trains, and may evaluate with other data
  evaluate,  ///< evaluates with all data
  predict,   ///< needs no labels
};

/// Adds the flags for data to a command, and opens the data that they describe.
class TrainInputFlags {
 public:
  void add_to(CLI::App& app, DataUse use);

  /// Returns the model of this name, over the given columns; see ColumnsFlag.
  const towers::ModelKind& kind(const std::string& model) { return columns_.kind(model); }
  /// Returns a fingerprint of the columns, which the processes of a job compare.
  std::string columns() const { return columns_.fingerprint(); }

  bool has_data() const noexcept { return data_.is_given(); }
  bool has_eval_data() const noexcept { return eval_.is_given(); }
  /// These return the elements for the model, before the model's own input stages. Components have
  /// the model's names, and rows carry their weights. They throw UsageError, which names the flag.
  Dataset data(const towers::ModelKind& kind) const { return open(data_, kind); }
  Dataset eval_data(const towers::ModelKind& kind) const { return open(eval_, kind); }
  /// Returns the weights of the classes. They are derived from the training data, or from the
  /// evaluation data if there are no training data. Throws UsageError, which names the flag.
  std::vector<towers::ClassWeight> class_weights(const towers::ModelKind& kind,
                                                 const RunOptions& options) const;
  /// Returns the element-wise stages of the evaluation data's pipeline, or else of the training
  /// data's. Returns nothing if the data come from no pipeline.
  std::optional<PipelineSpec> element_pipeline() const;
  /// Returns the names given by --component, or else those of the model in a folder.
  std::vector<std::pair<std::string, std::string>> components() const;
  /// Returns the names of the classes: those stored with the variables (`known`), or else those of
  /// the columns' label.
  std::vector<std::string> classes(const std::vector<std::string>& known) const {
    return known.empty() ? columns_.classes() : known;
  }
  /// Returns the columns to store in a model's folder, or nothing if there are none.
  std::optional<StoredColumns> stored_columns() const { return columns_.stored(); }
  /// Reads the data in the way for which the model in `folder` was made.
  void use(const ModelFolder& model, const std::string& folder);
  /// True if the pipeline of the training data shuffles. The command must not shuffle again.
  bool orders() const;

  const std::string& quarantine() const noexcept { return quarantine_; }
  /// These return the settings for bad elements and for weights, which the processes of a job
  /// compare.
  bool trusts_data() const noexcept { return trust_data_; }
  std::string on_error() const { return on_error_ + ", " + max_errors_; }
  std::string weights() const { return weight_column_ + ", " + class_weights_; }
  /// True if `class_weights` reads all data.
  bool counts_labels() const { return class_weights_ == "balanced"; }
  /// Applies [run] of the --pipeline file and then the flags to `options`. Throws UsageError for
  /// flags that do not fit together, and if a flag of `of_evaluation` was given without evaluation
  /// data.
  void apply_to(RunOptions& options, const std::vector<std::string>& of_evaluation = {}) const;

 private:
  /// Training or evaluation data, with the names of their flags.
  struct Data {
    std::string flag, range_flag, pipeline_flag;
    std::string path{}, range{}, pipeline{};
    bool is_given() const noexcept { return !path.empty() || !pipeline.empty(); }
  };
  std::optional<PipelineSpec> pipeline() const;
  Dataset open(const Data& data, const towers::ModelKind& kind) const;

  const CLI::App* app_ = nullptr;
  DataUse use_ = DataUse::train;
  Data data_{"--data", "--data-range", "--pipeline"};
  Data eval_{"--eval-data", "--eval-range", "--eval-pipeline"};
  ColumnsFlag columns_;
  std::vector<std::string> components_;
  std::optional<ModelFolder> model_;
  std::string weight_column_, class_weights_;
  std::string label_regex_, memory_, on_error_ = "fail", max_errors_, quarantine_;
  std::optional<std::int64_t> label_depth_;
  bool trust_data_ = false, hidden_ = false, strict_images_ = false;
};

}  // namespace penstock::tool
