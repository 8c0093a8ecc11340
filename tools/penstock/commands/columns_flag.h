// The flag for feature columns of `penstock train`, `evaluate` and `predict`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <penstock/dataset.h>
#include <penstock/towers/model.h>

#include "tools/penstock/run/columns_file.h"
#include "tools/penstock/run/model_folder.h"
#include "tools/penstock/run/train_data.h"

namespace penstock::tool {

/// Adds --columns to a command, and makes the model and the tables that it describes.
class ColumnsFlag {
 public:
  void add_to(CLI::App& app);
  /// Returns the model of this name. A model over columns gets those of the file or of a model's
  /// folder. Throws UsageError if the model takes columns and none are given, or if columns are
  /// given and the model takes none.
  const towers::ModelKind& kind(const std::string& model);
  /// Uses the columns that the model in `folder` holds, if any.
  void use(std::optional<StoredColumns> columns, const std::string& folder);
  /// Returns the names of the label's classes; empty if there are none.
  std::vector<std::string> classes() const;
  /// Returns the columns to store in a model's folder, or nothing if there are none.
  std::optional<StoredColumns> stored() const;
  bool is_given() const noexcept { return columns_.has_value(); }
  /// Opens the table for the model of `kind`. REQUIRES: is_given. Throws UsageError or Error.
  Dataset open(const std::string& path, const TrainDataOptions& options) const;
  /// Returns the elements of a pipeline for that model. If `labels` is false, each gets a
  /// placeholder label. REQUIRES: is_given. Throws UsageError or Error.
  Dataset piped(const Dataset& elements, bool labels) const;
  /// Returns a fingerprint of the columns, which the processes of a job compare.
  std::string fingerprint() const;

 private:
  ColumnsFile read();

  std::string file_;
  std::optional<StoredColumns> given_;
  std::string given_in_;  // a folder
  std::optional<ColumnsFile> columns_;
  std::optional<towers::ModelKind> kind_;
};

}  // namespace penstock::tool
