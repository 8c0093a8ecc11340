// Feature columns as TOML, for `--columns FILE`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <penstock/towers/columns/column_model.h>
#include "tools/penstock/run/train_data.h"

namespace penstock::tool {

/// The text of a columns file, and the columns that it describes.
struct ColumnsFile {
  std::string text{};
  towers::ColumnModel model{};
  /// The columns whose words are in files of their own, by the names of their tables.
  std::map<std::string, towers::ColumnPtr> vocabularies{};
  std::vector<std::string> na_values{};  ///< see CsvOptions
};

/// Returns the words of such a column: the lines of `file`, at most `size` of them (0: all).
using WordsOf = std::function<std::vector<std::string>(const std::string& column,
                                                       const std::string& file, std::int64_t size)>;

/// Reads the columns, the label and the parts of a model that a text describes;
/// docs/feature-columns.md lists its tables. Throws UsageError that names the file, the line and
/// the field.
ColumnsFile read_columns(std::string text, const std::string& name, const WordsOf& words_of);
/// Reads a file. Relative paths of vocabularies count from its folder.
ColumnsFile read_columns_file(const std::string& path);
/// Reads only the columns of a text. Relative paths of vocabularies count from `folder`.
towers::ColumnModel columns_from_toml(const std::string& text, const std::string& name,
                                      const std::string& folder = ".");
/// Reads only the columns of a file.
towers::ColumnModel load_columns(const std::string& path);

/// Opens a table, with the requested features and the weights of rows. Reads tf.Examples
/// (.tfrecord), as plain records if only columns use them, or CSV with a header (.csv). If
/// `options.labels` is false, each row gets a placeholder label. Throws UsageError or Error.
Dataset open_table(const std::string& path, const towers::ColumnModel& columns,
                   const TrainDataOptions& options);
/// Returns the same elements, with a placeholder label if the columns name one.
Dataset with_any_label(const Dataset& table, const towers::ColumnModel& columns);

}  // namespace penstock::tool
