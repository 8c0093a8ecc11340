// See ColumnValues.
#include <algorithm>
#include <cmath>

#include <penstock/error.h>

#include "towers/columns/column_plan.h"

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

std::int64_t checked(std::int64_t label, std::int64_t count) {
  if (count == 0 || (label >= 0 && label < count)) return label;
  throw Error(ErrorCode::mismatch, "label " + std::to_string(label) + " is not one of " +
                                       std::to_string(count) + " classes");
}

std::int64_t class_of(const FeatureValues& value, const std::vector<std::string>& classes,
                      std::int64_t count) {
  if (value.dtype == DType::i64) return checked(value.integers[0], count);
  if (value.dtype == DType::f32) {
    const float number = value.floats[0];
    if (number == std::trunc(number) && std::abs(number) < 1e9F)
      return checked(static_cast<std::int64_t>(number), count);
    throw Error(ErrorCode::mismatch, "label " + std::to_string(number) + " is not an integer");
  }
  const std::string_view text = value.texts[0];
  const auto found = std::ranges::find(classes, text);
  if (found == classes.end())
    throw Error(ErrorCode::mismatch, "label \"" + std::string(text) + "\" is not one of the " +
                                         std::to_string(classes.size()) + " classes");
  return found - classes.begin();
}

}  // namespace

void ColumnValues::compute(const ColumnPlan& plan, const Element& in) {
  plan.source.read(in, features_);
  if (plan.label >= 0)
    label = class_of(features_.values[static_cast<std::size_t>(plan.label)], plan.classes,
                     plan.class_count);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) compute(plan.steps[s], s);
  for (std::size_t s = 0; s < plan.steps.size(); ++s)
    if (plan.steps[s].output >= 0) std::ranges::replace(ids[s], kNoValue, kNoId);
}

void ColumnValues::compute(const ColumnStep& step, std::size_t at) {
  const Column& column = *step.column;
  Ids& own = ids[at];
  std::vector<float>& values = numbers[at];
  const auto feature = [&]() -> const FeatureValues& {
    return features_.values[static_cast<std::size_t>(step.input)];
  };
  switch (column.kind) {
    case Kind::numeric:
      read_numbers(feature(), values);
      column.normalizer.apply(values);
      return;
    case Kind::bucketized:
      find_buckets(column, numbers[step.source], own);
      return;
    case Kind::weighted:
      read_numbers(feature(), values);
      own = ids[step.source];
      if (values.size() != own.size())
        throw Error(ErrorCode::mismatch, "column " + column.name + ": feature " +
                                             column.feature.key + " has " +
                                             std::to_string(values.size()) + " weights of " +
                                             std::to_string(own.size()) + " values");
      return;
    case Kind::crossed:
      find_crosses(column, step.parts, features_.values, ids, crosses_, own);
      if (step.count >= 0) own.resize(static_cast<std::size_t>(step.count), kNoId);
      return;
    default:
      find_ids(column, feature(), step.fixed, own);
  }
}

}  // namespace penstock::towers
