#include <penstock/towers/columns/column_model.h>

#include <algorithm>

#include <penstock/error.h>

#include <penstock/towers/layers/dense.h>
#include <penstock/towers/layers/relu.h>

namespace penstock::towers {

std::vector<ColumnPtr> ColumnModel::columns() const {
  std::vector<ColumnPtr> all;
  for (const auto& [name, columns] : parts)
    for (const ColumnPtr& column : columns)
      if (std::ranges::find(all, column) == all.end()) all.push_back(column);
  return all;
}

std::vector<FeatureSpec> ColumnModel::features() const {
  std::vector<FeatureSpec> features = parse_spec(columns());
  if (!label) return features;
  const FeatureSpec wanted = label_feature(*label);
  for (const FeatureSpec& feature : features)
    if (feature.key == wanted.key)
      throw Error(ErrorCode::invalid_argument,
                  "feature " + wanted.key + " is the label, and a column reads it");
  features.push_back(wanted);
  return features;
}

std::vector<ColumnPtr> ColumnModel::part(std::string_view name) const {
  const auto found = parts.find(name);
  return found != parts.end() ? found->second : std::vector<ColumnPtr>();
}

void ColumnModel::check_parts(std::string_view model, const std::vector<std::string>& known) const {
  for (const auto& [name, columns] : parts)
    if (std::ranges::find(known, name) == known.end()) {
      std::string text;
      for (const std::string& one : known) text += (text.empty() ? "" : " and ") + one;
      throw Error(ErrorCode::invalid_argument,
                  std::string(model) + " has no part " + name + ", but " + text);
    }
}

std::int64_t add_hidden(Sequential& layers, const Scope& scope, std::int64_t in,
                        const std::vector<std::int64_t>& hidden) {
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i] < 1)
      throw Error(ErrorCode::invalid_argument,
                  "a hidden layer has at least 1 output, got " + std::to_string(hidden[i]));
    layers.add(dense(scope / ("hidden" + std::to_string(i + 1)),
                     {.in = in, .out = hidden[i], .initializer = Initializer::he(in)}));
    layers.add(relu(scope));
    in = hidden[i];
  }
  return in;
}

}  // namespace penstock::towers
