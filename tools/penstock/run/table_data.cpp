// Opens tables as training data, see columns_file.h.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include <penstock/file_system.h>
#include <penstock/internal/find_files.h>
#include <penstock/internal/other_format.h>
#include <penstock/sources.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/run/columns_file.h"

namespace penstock::tool {
namespace {

/// Returns the value of an empty field. Nothing: an empty field is an error, or for texts the empty
/// text.
std::optional<std::string> default_of(const FeatureSpec& feature) {
  if (!feature.default_value || feature.dtype == DType::bytes) return std::nullopt;
  const Tensor& value = *feature.default_value;
  // For a feature with any number of values, -1 means none.
  if (feature.dtype == DType::i64)
    return std::to_string(value.volume() == 1 ? value.values<std::int64_t>()[0] : -1);
  if (value.volume() != 1) return std::nullopt;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g",
                feature.dtype == DType::f32 ? static_cast<double>(value.values<float>()[0])
                                            : value.values<double>()[0]);
  return text.data();
}

/// Returns a placeholder label, for data without labels.
Tensor any_label(const towers::Label& label) {
  if (label.dtype == DType::bytes) return Tensor::copy_bytes(label.classes.front());
  return label.dtype == DType::f32 ? Tensor::scalar(0.0F) : Tensor::scalar(std::int64_t{0});
}

std::vector<FeatureSpec> features_of(const towers::ColumnModel& columns,
                                     const TrainDataOptions& options) {
  std::vector<FeatureSpec> features = columns.features();
  const auto has = [&](const std::string& key) {
    return std::ranges::any_of(features, [&](const FeatureSpec& one) { return one.key == key; });
  };
  if (columns.label && !options.labels)
    std::erase_if(features, [&](const FeatureSpec& one) { return one.key == columns.label->key; });
  const std::string& weight = options.weight_column;
  if (!weight.empty() && !has(weight))
    features.push_back({.key = weight, .dtype = DType::f32, .shape = {}});
  return features;
}

/// `as_records`: tf.Examples stay unparsed.
Dataset read_table(const std::string& path, const std::vector<FeatureSpec>& features,
                   const TrainDataOptions& options, bool as_records) {
  const std::vector<std::string> parts = split_paths(*default_file_system(), path);
  const std::string name =
      lower(std::filesystem::path(expand_braces(parts.front()).front()).filename().string());
  if (name.find(".tfrecord") != name.npos) {
    const Dataset records = tfrecord(parts);
    return as_records ? records : records.map_op(parse_example(features));
  }
  if (!name.ends_with(".csv")) {
    if (std::error_code error; std::filesystem::is_regular_file(parts.front(), error))
      refuse_other_format(*default_file_system()->open(parts.front()));
    throw UsageError("models over columns read .tfrecord (tf.Examples) or .csv, not " +
                     in_quotes(path));
  }
  CsvOptions of_csv;
  of_csv.na_values = options.na_values;
  for (const FeatureSpec& feature : features) {
    if (feature.shape.is_static() && feature.shape.volume() != 1)
      throw UsageError("feature " + in_quotes(feature.key) + " has " +
                       std::to_string(feature.shape.volume()) + " values, but a CSV field has one");
    of_csv.columns.push_back({feature.key, feature.dtype, default_of(feature)});
  }
  return csv(parts, of_csv);
}

}  // namespace

Dataset open_table(const std::string& path, const towers::ColumnModel& columns,
                   const TrainDataOptions& options) {
  // If only columns use the records, these parse them.
  const Dataset table =
      read_table(path, features_of(columns, options), options, options.weight_column.empty());
  return options.labels ? table : with_any_label(table, columns);
}

Dataset with_any_label(const Dataset& table, const towers::ColumnModel& columns) {
  if (!columns.label) return table;
  const towers::Label& label = *columns.label;
  return table.map([value = any_label(label)](const Element& /*in*/) { return value; },
                   {.name = "no_label", .adds = {{label.key, label.dtype, {}}}});
}

}  // namespace penstock::tool
