#include "towers/columns/column_plan.h"

#include <algorithm>
#include <map>

#include <penstock/error.h>
#include <penstock/towers/model_input.h>

namespace penstock::towers {
namespace {

using Kind = Column::Kind;

}  // namespace

void refuse_columns(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

ColumnPlan::ColumnPlan(const std::vector<ColumnPtr>& all, const std::optional<Label>& wanted_label,
                       const Spec& elements)
    : input(elements), source(elements, all, wanted_label) {
  std::vector<ComponentSpec> components;
  if (wanted_label) add_label(*wanted_label, components);
  std::map<std::string, ColumnPtr> named;
  for (const ColumnPtr& column : all) {
    const bool looks_up = column->kind == Kind::indicator || column->kind == Kind::embedding;
    const ColumnPtr& read = looks_up ? column->source : column;
    const auto [place, is_new] = named.emplace(read->name, read);
    if (!is_new && place->second != read)
      refuse_columns("two columns are named " + read->name + ": define it once, and use it twice");
    if (is_new) emit(add(read), components);
  }
  if (components.empty()) refuse_columns("there are no columns");
  columns_end = components.size();
  for (const ComponentSpec& carried : carried_in("columns", input)) components.push_back(carried);
  output = Spec(std::move(components));
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].output < 0) continue;
    const auto at = static_cast<std::size_t>(steps[s].output);
    emitted.resize(std::max(emitted.size(), at + 1));
    emitted[at] = s;
  }
}

void ColumnPlan::add_label(const Label& wanted, std::vector<ComponentSpec>& components) {
  label = features().find(wanted.key);
  if (label < 0) refuse_columns("label: no feature " + wanted.key + " in " + input.to_string());
  const ComponentSpec& found = features()[static_cast<std::size_t>(label)];
  if (found.dtype != wanted.dtype || !found.shape.is_static() || found.shape.volume() != 1)
    refuse_columns("label: feature " + wanted.key + " must be one " +
                   std::string(name_of(wanted.dtype)) + ", the data have " +
                   std::string(name_of(found.dtype)) + " " + found.shape.to_string());
  classes = wanted.classes;
  class_count = wanted.count;
  components.push_back({"label", DType::i64, {}});
}

/// Checks the feature's component, and returns its index.
int ColumnPlan::find(const Column& column, const FeatureSpec& feature, bool& fixed) const {
  const std::string who = "column " + column.name + ": ";
  const int at = features().find(feature.key);
  if (at < 0) refuse_columns(who + "no feature " + feature.key + " in " + input.to_string());
  const ComponentSpec& found = features()[static_cast<std::size_t>(at)];
  const auto refuse_it = [&](const std::string& wanted) {
    refuse_columns(who + "feature " + feature.key + " must be " + wanted + ", the data have " +
                   std::string(name_of(found.dtype)) + " " + found.shape.to_string());
  };
  if (found.dtype != feature.dtype) refuse_it("of " + std::string(name_of(feature.dtype)));
  const Shape& shape = found.shape;
  fixed = shape.is_static();
  if (column.kind == Kind::numeric && !column.sequence) {
    if (!fixed || shape.volume() != feature.shape.volume()) refuse_it(feature.shape.to_string());
  } else if (column.kind == Kind::numeric) {
    if (!shape.has_rank() || shape.rank() == 0 || shape.rank() > 2 ||
        (shape.rank() == 2 ? shape[1] != column.values : column.values != 1))
      refuse_it(feature.shape.to_string());
  } else if (!fixed && (!shape.has_rank() || shape.rank() != 1)) {
    refuse_it("of a fixed shape, or [?]");
  }
  return at;
}

std::size_t ColumnPlan::add(const ColumnPtr& column) {
  for (std::size_t s = 0; s < steps.size(); ++s)
    if (steps[s].column == column) return s;
  ColumnStep step{.column = column};
  const auto fixed_count = [&](int at) {
    return features()[static_cast<std::size_t>(at)].shape.volume();
  };
  if (column->source != nullptr) step.source = add(column->source);
  if (column->kind == Kind::bucketized) {
    step.count = column->values;
  } else if (column->kind == Kind::crossed) {
    add_parts(step);
  } else {
    step.input = find(*column, column->feature, step.fixed);
    if (step.fixed) step.count = fixed_count(step.input);
    if (column->kind == Kind::weighted && steps[step.source].count != step.count)
      refuse_columns("column " + column->name + ": feature " + column->feature.key +
                     " has not as many " + "values as the ids it weighs");
  }
  steps.push_back(std::move(step));
  return steps.size() - 1;
}

void ColumnPlan::add_parts(ColumnStep& step) {
  const Column& column = *step.column;
  std::vector<CrossPart> behind;  // fixed-size features come last, as in TensorFlow
  std::int64_t count = 1;
  for (const CrossKey& key : column.keys) {
    CrossPart part;
    std::int64_t values = -1;
    if (key.column != nullptr) {
      part.step = add(key.column);
      values = steps[part.step].count;
    } else {
      part.input = find(column, {.key = key.key, .dtype = key.dtype}, part.fixed);
      part.dtype = key.dtype;
      if (part.fixed) values = features()[static_cast<std::size_t>(part.input)].shape.volume();
    }
    count = count < 0 || values < 0 ? -1 : count * values;
    if (count > kMostCrosses)
      refuse_columns("column " + column.name + ": an example has more than " +
                     std::to_string(kMostCrosses) + " crosses");
    (part.input >= 0 && part.fixed ? behind : step.parts).push_back(part);
  }
  step.parts.insert(step.parts.end(), behind.begin(), behind.end());
  step.count = count;
}

void ColumnPlan::emit(std::size_t at, std::vector<ComponentSpec>& components) {
  ColumnStep& step = steps[at];
  const Column& column = *step.column;
  step.output = static_cast<int>(components.size());
  if (column.kind == Kind::numeric) {
    Shape shape{column.feature.shape.is_static() ? column.feature.shape.volume() : 0};
    if (column.sequence)
      shape = {features()[static_cast<std::size_t>(step.input)].shape[0], column.values};
    components.push_back({column.name, DType::f32, shape});
    return;
  }
  components.push_back({column.name, DType::i64, {step.count}});
  if (column.kind == Kind::weighted)
    components.push_back({column.name + ".weights", DType::f32, {step.count}});
}

}  // namespace penstock::towers
