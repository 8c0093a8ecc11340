// The definition of a model over feature columns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <penstock/towers/layer.h>

#include <penstock/towers/columns/transform.h>

namespace penstock::towers {

/// The columns and options of a model over columns.
struct ColumnModel {
  /// The columns that each part of the model takes: "wide" and "deep", or "query" and "item".
  std::map<std::string, std::vector<ColumnPtr>, std::less<>> parts{};
  std::optional<Label> label{};  ///< none: a model without labels
  std::int64_t classes = 2;      ///< wide_deep: of the label
  /// Outputs of each dense layer. A relu follows each.
  std::vector<std::int64_t> hidden{128, 64};
  std::int64_t dimension = 32;  ///< two_tower: of both vectors
  float scale = 20;             ///< two_tower: cosines are multiplied by this

  /// Returns the columns of all parts, each once.
  std::vector<ColumnPtr> columns() const;
  /// Returns the features of the columns and of the label, which must be read. Throws
  /// Error{invalid_argument}.
  std::vector<FeatureSpec> features() const;
  /// Returns the columns of a part; empty if there is no such part.
  std::vector<ColumnPtr> part(std::string_view name) const;
  /// Throws Error{invalid_argument} for a part that is not in `known`.
  void check_parts(std::string_view model, const std::vector<std::string>& known) const;
};

/// Adds dense layers with a relu after each. Returns the number of outputs of the last one, or `in`
/// if there is none.
std::int64_t add_hidden(Sequential& layers, const Scope& scope, std::int64_t in,
                        const std::vector<std::int64_t>& hidden);

}  // namespace penstock::towers
