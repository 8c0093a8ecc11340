#include "towers/columns/feature_input.h"

#include <algorithm>
#include <string>

#include "towers/numbers.h"

namespace penstock::towers {
namespace {

constexpr const char* kRecord = "record";

std::string parsed_as(const FeatureSpec& feature) {
  std::string text = std::string(name_of(feature.dtype)) + " " + feature.shape.to_string();
  if (!feature.default_value) return text;
  text += " default";
  const FeatureValues values = feature_values(*feature.default_value);
  for (const std::string_view one : values.texts) text += " " + std::string(one);
  for (const float one : values.floats) text += " " + exact_text(one);
  for (const std::int64_t one : values.integers) text += " " + std::to_string(one);
  return text;
}

}  // namespace

FeatureValues feature_values(const Tensor& tensor) {
  FeatureValues values{.dtype = tensor.dtype()};
  if (values.dtype == DType::bytes) {
    if (tensor.volume() == 0) return values;
    static_cast<void>(tensor.bytes_at(0));  // throws
    values.texts = {reinterpret_cast<const std::string_view*>(tensor.data()),
                    static_cast<std::size_t>(tensor.volume())};
  } else if (values.dtype == DType::i64) {
    values.integers = tensor.values<std::int64_t>();
  } else if (values.dtype == DType::f32) {
    values.floats = tensor.values<float>();
  } else if (values.dtype == DType::f64) {
    values.doubles = tensor.values<double>();
  }
  return values;
}

FeatureInput::FeatureInput(const Spec& input, const std::vector<ColumnPtr>& columns,
                           const std::optional<Label>& label)
    : features_(input) {
  const int at = input.find(kRecord);
  if (at < 0 || !(input[static_cast<std::size_t>(at)] == ComponentSpec{kRecord, DType::bytes, {}}))
    return;
  const auto is_there = [&](const FeatureSpec& feature) { return input.find(feature.key) >= 0; };
  std::vector<FeatureSpec> wanted = parse_spec(columns);
  if (std::ranges::any_of(wanted, is_there)) return;  // parsed already
  // Data without labels to parse may carry a label component next to the examples.
  if (label && input.find(label->key) < 0) wanted.push_back(label_feature(*label));
  std::vector<ComponentSpec> found;
  for (const FeatureSpec& feature : wanted)
    found.push_back({feature.key, feature.dtype, feature.shape});
  for (const ComponentSpec& component : input) found.push_back(component);
  static_cast<void>(ExampleReader(wanted));  // throws
  parsed_ = std::move(wanted);
  features_ = Spec(std::move(found));
  record_ = at;
}

void FeatureInput::describe(Description& description) const {
  for (const FeatureSpec& feature : parsed_)
    description.add("feature " + feature.key, parsed_as(feature));
}

void FeatureInput::read(const Element& in, Scratch& scratch) const {
  std::vector<FeatureValues>& values = scratch.values;
  values.resize(features_.size());
  if (record_ >= 0) {
    if (!scratch.reader) scratch.reader.emplace(parsed_);
    ExampleReader& reader = *scratch.reader;
    reader.read(in[record_].bytes_at());
    for (std::size_t i = 0; i < parsed_.size(); ++i) {
      const DType dtype = parsed_[i].dtype;
      values[i].dtype = dtype;
      if (dtype == DType::bytes) {
        values[i].texts = reader.texts(i);
      } else if (dtype == DType::f32) {
        values[i].floats = reader.floats(i);
      } else {
        values[i].integers = reader.integers(i);
      }
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) values[parsed_.size() + i] = feature_values(in[i]);
}

}  // namespace penstock::towers
