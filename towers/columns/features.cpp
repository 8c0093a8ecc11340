#include "towers/columns/features.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <penstock/error.h>

namespace penstock::towers {
namespace {

std::string text_of(const FeatureSpec& feature) {
  return std::string(name_of(feature.dtype)) + " " + feature.shape.to_string();
}

bool same_default(const FeatureSpec& a, const FeatureSpec& b) {
  if (a.default_value.has_value() != b.default_value.has_value()) return false;
  if (!a.default_value || a.dtype == DType::bytes) return true;
  return std::ranges::equal(std::span(a.default_value->data(), a.default_value->nbytes()),
                            std::span(b.default_value->data(), b.default_value->nbytes()));
}

struct Wanted {
  FeatureSpec feature;
  std::string column;
};

void want(std::map<std::string, Wanted>& all, const FeatureSpec& feature,
          const std::string& column) {
  const auto [place, is_new] = all.emplace(feature.key, Wanted{feature, column});
  if (is_new) return;
  const FeatureSpec& known = place->second.feature;
  if (known.dtype != feature.dtype || !(known.shape == feature.shape))
    refuse_column(column, "reads feature " + feature.key + " as " + text_of(feature) +
                              ", but column " + place->second.column + " as " + text_of(known));
  if (!same_default(known, feature))
    refuse_column(column, "has another default for feature " + feature.key + " than column " +
                              place->second.column);
}

/// Features of crosses are collected last, because they accept the form in which other columns want
/// them.
void collect(std::map<std::string, Wanted>& all, const ColumnPtr& column, bool of_crosses) {
  if (!column->feature.key.empty() && !of_crosses) want(all, column->feature, column->name);
  if (column->source != nullptr) collect(all, column->source, of_crosses);
  for (const CrossKey& key : column->keys) {
    if (key.column != nullptr) {
      collect(all, key.column, of_crosses);
    } else if (of_crosses) {
      const auto known = all.find(key.key);
      const FeatureSpec feature = values_feature(key.key, key.dtype, 0);
      if (known == all.end()) {
        all.emplace(key.key, Wanted{feature, column->name});
      } else if (known->second.feature.dtype != key.dtype) {
        want(all, feature, column->name);
      }
    }
  }
}

}  // namespace

void refuse_column(const std::string& column, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "column " + column + ": " + why);
}

Tensor filled(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor = Tensor::allocate(dtype, shape);
  for (std::int64_t i = 0; i < tensor.volume(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double value = values.size() == 1 ? values[0] : values[at];
    if (dtype == DType::i64) {
      tensor.mutable_values<std::int64_t>()[at] = static_cast<std::int64_t>(value);
    } else if (dtype == DType::f64) {
      tensor.mutable_values<double>()[at] = value;
    } else {
      tensor.mutable_values<float>()[at] = static_cast<float>(value);
    }
  }
  return tensor;
}

/// Returns the value of a missing feature that may have any number of values.
Tensor nothing(DType dtype, const Shape& shape) {
  if (dtype == DType::bytes) return Tensor::of_bytes({}).reshape(shape);
  return Tensor::allocate(dtype, shape);
}

FeatureSpec values_feature(const std::string& key, DType dtype, std::int64_t values) {
  FeatureSpec feature{.key = key, .dtype = dtype};
  if (values == 0) {
    feature.shape = {Shape::kUnknown};
    feature.default_value = nothing(dtype, {0});
    return feature;
  }
  feature.shape = {values};
  if (dtype == DType::bytes) {
    feature.default_value = Tensor::of_bytes(
        std::vector<std::string_view>(static_cast<std::size_t>(values), std::string_view()));
  } else {
    feature.default_value = filled(dtype, {values}, {dtype == DType::i64 ? -1.0 : 0.0});
  }
  return feature;
}

std::vector<FeatureSpec> parse_spec(const std::vector<ColumnPtr>& columns) {
  std::map<std::string, Wanted> all;
  for (const bool of_crosses : {false, true})
    for (const ColumnPtr& column : columns) collect(all, column, of_crosses);
  std::vector<FeatureSpec> features;
  for (const auto& [key, wanted] : all) features.push_back(wanted.feature);
  return features;
}

}  // namespace penstock::towers
