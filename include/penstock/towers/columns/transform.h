// The part of feature columns that runs in the pipeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <penstock/dataset.h>

#include <penstock/towers/columns/column.h>

namespace penstock::towers {

/// The feature that is an example's label.
struct Label {
  std::string key{};         ///< of the feature
  DType dtype = DType::i64;  ///< i64, f32 (whole numbers) or bytes
  /// For bytes: the texts of the classes, in the order of their numbers.
  std::vector<std::string> classes{};
  /// The number of classes: other numbers are errors of their records. 0: any are allowed.
  std::int64_t count = 0;
};

/// Returns the feature that a label is read from. Throws Error{invalid_argument}, which names it.
FeatureSpec label_feature(const Label& label);

/// Turns features into numbers. Elements have a component for each feature: the columns of a CSV
/// file, or the components of `parse_spec` after `parse_example`. A component has a fixed shape, in
/// which "" and -1 stand for missing values, or the shape [?] for any number of values.
/// Alternatively, elements have a component `record` and no features. They are then tf.Examples,
/// which are parsed here, several times as fast. The elements that come out have these components:
///
/// - label: i64 [], if a label is given.
/// - Each numeric column, by its name. Type f32 [width], or [?,width] for a sequence.
/// - Each categorical column, by its name; also those of indicators, embeddings and buckets. Ids
///   i64 [values], with -1 for a missing id. If the number of values is unknown, ids i64 [?], to be
///   batched by `ragged_batch`.
/// - Each weighted column has a second component NAME.weights. Type f32, of the same shape.
///
/// A value that several columns need is computed once. Throws Error{invalid_argument}, which names
/// the column and the feature, for a feature that is missing or has another dtype or shape. Throws
/// the same for two columns of one name.
Dataset transform_columns(const Dataset& features, const std::vector<ColumnPtr>& columns,
                          const std::optional<Label>& label = {});

}  // namespace penstock::towers
