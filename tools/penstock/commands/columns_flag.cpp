#include "tools/penstock/commands/columns_flag.h"

#include <span>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/crc32c.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {

void ColumnsFlag::add_to(CLI::App& app) {
  app.add_option("--columns", file_,
                 "TOML file with the feature columns, the label and the parts of a model over "
                 "columns; the data must be .tfrecord (tf.Examples) or .csv")
      ->type_name("FILE")
      ->group("Model");
}

const towers::ModelKind& ColumnsFlag::kind(const std::string& model) {
  const auto found = [&]() -> const towers::ModelKind& {
    try {
      return towers::model_kind(model);
    } catch (const Error& error) {
      throw UsageError(error.cause() + suggestion(model, towers::model_names()), "--model");
    }
  };
  const towers::ModelKind& kind = found();
  if (!kind.over) {
    if (!file_.empty()) throw UsageError(model + " takes no columns", "--columns");
    return kind;
  }
  if (file_.empty() && !given_)
    throw UsageError(model + " needs feature columns: describe them in a TOML file", "--columns");
  if (!file_.empty() && given_)
    throw UsageError("the exported model already has its columns: omit this flag", "--columns");
  columns_ = read();
  try {
    return kind_.emplace(kind.over(columns_->model));
  } catch (const Error& error) {
    throw UsageError(error.what(), printable(given_ ? given_in_ : file_));
  }
}

ColumnsFile ColumnsFlag::read() {
  if (!given_) return read_columns_file(file_);
  const auto words = [this](const std::string& column, const std::string&, std::int64_t) {
    const auto found = given_->vocabularies.find(column);
    if (found == given_->vocabularies.end())
      throw UsageError("the exported model has no vocabulary for this column");
    return std::move(found->second);
  };
  return read_columns(given_->text, columns_in(given_in_), words);
}

void ColumnsFlag::use(std::optional<StoredColumns> columns, const std::string& folder) {
  given_ = std::move(columns);
  given_in_ = folder;
}

std::vector<std::string> ColumnsFlag::classes() const {
  if (!columns_ || !columns_->model.label) return {};
  return columns_->model.label->classes;
}

std::optional<StoredColumns> ColumnsFlag::stored() const {
  if (!columns_) return std::nullopt;
  StoredColumns stored{.text = columns_->text};
  for (const auto& [name, column] : columns_->vocabularies)
    stored.vocabularies[name] = towers::words_of(*column);
  return stored;
}

Dataset ColumnsFlag::open(const std::string& path, const TrainDataOptions& options) const {
  if (!options.label_regex.empty())
    throw UsageError(
        "the columns file names the label: --label-regex applies to images and tar shards only");
  if (options.label_depth)
    throw UsageError(
        "the columns file names the label: --label-depth applies to folders of images only");
  if (options.hidden)
    throw UsageError("the data are a table: --hidden applies to images and tar shards only");
  TrainDataOptions of_table = options;
  of_table.na_values = columns_->na_values;
  return open_table(path, columns_->model, of_table);
}

Dataset ColumnsFlag::piped(const Dataset& elements, bool labels) const {
  return labels ? elements : with_any_label(elements, columns_->model);
}

std::string ColumnsFlag::fingerprint() const {
  if (!columns_) return "none";
  return std::to_string(crc32c(std::as_bytes(std::span(columns_->text))));
}

}  // namespace penstock::tool
