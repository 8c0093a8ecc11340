// The features that columns read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/towers/columns/column.h>

namespace penstock::towers {

/// Throws Error{invalid_argument} naming the column.
[[noreturn]] void refuse_column(const std::string& column, const std::string& why);
/// Returns a tensor of a numeric dtype, with one value for all, or with as many values as the shape
/// has.
Tensor filled(DType dtype, const Shape& shape, const std::vector<double>& values);
/// Returns the value of a missing feature that may have any number of values. REQUIRES: the shape
/// has no values.
Tensor nothing(DType dtype, const Shape& shape);
/// Returns a feature with `values` values, which are empty ones if the feature is missing; 0: any
/// number of values.
FeatureSpec values_feature(const std::string& key, DType dtype, std::int64_t values);

}  // namespace penstock::towers
