// A trained model in a folder, with everything that predictions need except the data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <penstock/towers/trainer.h>

#include "pipelines/pipeline_spec.h"

namespace penstock::tool {

/// Feature columns as a model folder stores them.
struct StoredColumns {
  std::string text{};  ///< the unchanged text of the columns file
  /// The words from files of their own, by the tables of their columns.
  std::map<std::string, std::vector<std::string>> vocabularies{};
};

/// The contents of a model folder. Its files are `variables.safetensors`, and `model.json` with the
/// members below. If elements come from a pipeline, `pipeline.toml` has its source and its ops on
/// single elements. A model over columns also has `columns.toml`, and the words of columns in
/// `vocabulary-0.txt` and so on.
struct ModelFolder {
  std::string model{};                 ///< the model's name
  std::uint64_t step = 0;              ///< updates of the variables so far
  std::vector<std::string> classes{};  ///< by label; empty: not known
  /// Names in the model, and in the data.
  std::vector<std::pair<std::string, std::string>> components{};
  std::optional<PipelineSpec> pipeline{};
  std::optional<StoredColumns> columns{};
};

/// Throws UsageError if the path is not a folder, or if the folder has other files. Here and below,
/// an empty path means no folder, and the function does nothing.
void check_model_folder(const std::string& folder);
/// Creates the folder, or replaces the model in it. Writes model.json last, when all other files
/// are complete. Throws the errors of write_durably.
void write_model_folder(const std::string& folder, const ModelFolder& about,
                        const towers::VariableStore& variables);
/// Reads the folder. Throws the errors of `error_from_errno` if a file is missing, and UsageError
/// if one differs from what was written.
ModelFolder read_model_folder(const std::string& folder);
std::string variables_in(const std::string& folder);
std::string columns_in(const std::string& folder);

/// Returns the pipeline's source and its ops on single elements, without the stages that order or
/// select elements (shuffle, repeat, take, …).
PipelineSpec element_ops(const PipelineSpec& pipeline);
/// Returns the same pipeline over other data. Throws UsageError if the source takes no path.
PipelineSpec with_data(const PipelineSpec& pipeline, const std::string& path);

}  // namespace penstock::tool
