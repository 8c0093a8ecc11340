// A plan for the computation of columns from an element.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "towers/columns/feature_input.h"
#include "towers/columns/ids.h"

namespace penstock::towers {

/// Throws Error{invalid_argument}.
[[noreturn]] void refuse_columns(const std::string& why);

/// The inputs of one column, and the place of its results.
struct ColumnStep {
  ColumnPtr column;
  int input = -1;          // index of the feature; for weighted columns, of the weights
  bool fixed = false;      // the feature has a fixed shape
  std::size_t source = 0;  // index of the source's step
  std::vector<CrossPart> parts{};
  std::int64_t count = -1;  // ids in every element; -1: varies
  int output = -1;          // index of the component; -1: only used by other columns
};

/// Constant after construction.
struct ColumnPlan {
  /// Throws Error{invalid_argument} as `transform_columns` does.
  ColumnPlan(const std::vector<ColumnPtr>& all, const std::optional<Label>& wanted_label,
             const Spec& elements);

  const Spec input;
  const FeatureInput source;
  Spec output{};
  std::vector<ColumnStep> steps{};  // sources come first
  // The step that writes each component. The step of the component before them writes weights;
  // their own entry is unused.
  std::vector<std::size_t> emitted{};
  // Components from this one on are passed through.
  std::size_t columns_end = 0;
  int label = -1;                      // index of the feature
  std::vector<std::string> classes{};  // the label's
  std::int64_t class_count = 0;        // of numbers; 0: not known

 private:
  const Spec& features() const noexcept { return source.features(); }
  void add_label(const Label& wanted, std::vector<ComponentSpec>& components);
  int find(const Column& column, const FeatureSpec& feature, bool& fixed) const;
  std::size_t add(const ColumnPtr& column);
  void add_parts(ColumnStep& step);
  void emit(std::size_t at, std::vector<ComponentSpec>& components);
};

/// The values of one element, by the index of the step. Its memory is reused for the next element.
struct ColumnValues {
  explicit ColumnValues(std::size_t steps) : ids(steps), numbers(steps) {}

  /// Computes the values of `in`, which must stay alive. Throws an Error that names the column and
  /// the feature.
  void compute(const ColumnPlan& plan, const Element& in);

  std::int64_t label = 0;
  // Of columns that are written. kNoId stands for a missing id.
  std::vector<Ids> ids;
  std::vector<std::vector<float>> numbers;  // of numeric columns, and weights

 private:
  void compute(const ColumnStep& step, std::size_t at);

  CrossScratch crosses_;
  FeatureInput::Scratch features_;
};

}  // namespace penstock::towers
