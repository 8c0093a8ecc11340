// Opens TFRecord files for models.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/iterator.h>
#include <penstock/map.h>
#include <penstock/sources.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "tools/penstock/run/train_data.h"
#include "tools/penstock/shards/example_view.h"

namespace penstock::tool {
namespace {

/// The kind of each feature, by its key: b, f, i, or ? for none.
using Features = std::map<std::string, char>;

Features features_of_first(const Dataset& records) {
  for (Element& element : records.take(1).iterate({.threads = 1})) {
    const auto example = view_example(element["record"].bytes_at());
    if (!example && view_sequence_example(element["record"].bytes_at()))
      throw UsageError(
          "its records are tf.SequenceExamples; use --pipeline (sequence) to read their feature "
          "lists");
    if (!example)
      throw UsageError("its records are not tf.Examples; use --pipeline to read other records");
    Features features;
    for (const FeatureView& feature : *example) features[feature.key] = feature.kind;
    return features;
  }
  throw UsageError("there are no records");
}

std::vector<std::string> keys_for(const std::string& component, const TrainDataOptions& options) {
  if (const std::string named = options.name_of(component); !named.empty()) return {named};
  if (component == "image") return {"image/encoded", "image", "image_raw", "image/raw"};
  if (component == "label") return {"image/class/label", "label", "image/label"};
  return {component};
}

std::string list_of(const Features& features) {
  std::vector<std::string> keys;
  for (const auto& [key, kind] : features) {
    if (keys.size() == 20) {
      keys.emplace_back("…");
      break;
    }
    keys.push_back(key);
  }
  return join(keys, ", ");
}

const char* plural_of(char kind) {
  return kind == 'b' ? "bytes" : kind == 'f' ? "floats" : kind == 'i' ? "integers" : "nothing";
}

bool is_fixed(const Shape& shape) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] < 0) return false;
  return true;
}

struct Chosen {
  FeatureSpec spec{};
  std::optional<Shape> pixels{};  ///< the shape that bytes get
};

Chosen choose_form(const towers::TakenComponent& taken, const std::string& key, char kind) {
  const DType held = kind == 'f' ? DType::f32 : kind == 'i' ? DType::i64 : DType::bytes;
  std::string forms;
  for (const auto& form : taken.forms) {
    forms += (forms.empty() ? "" : " or ") + std::string(penstock::name_of(form.dtype)) + " " +
             form.shape.to_string();
    if ((kind == '?' || form.dtype == held) && is_fixed(form.shape) &&
        (form.dtype == DType::bytes || form.dtype == DType::f32 || form.dtype == DType::i64))
      return {{.key = key, .dtype = form.dtype, .shape = form.shape, .component = taken.name}};
  }
  for (const auto& form : taken.forms)
    if (kind == 'b' && form.dtype == DType::u8 && is_fixed(form.shape))
      return {{.key = key, .component = taken.name}, form.shape};
  throw UsageError("feature " + in_quotes(key) + " holds " + plural_of(kind) +
                   "; the model takes " + taken.name + ": " + forms);
}

Dataset as_pixels(const Dataset& examples, const std::string& component, const Shape& shape) {
  return examples.map(
      [component, shape](const Element& in) -> Tensor {
        const std::string_view bytes = in[component].bytes_at();
        if (static_cast<std::int64_t>(bytes.size()) != shape.volume())
          throw Error(ErrorCode::mismatch,
                      "the feature for " + component + " has " + std::to_string(bytes.size()) +
                          " bytes, which do not fit pixels u8 " + shape.to_string());
        Tensor pixels = Tensor::allocate(DType::u8, shape);
        std::ranges::copy(bytes, pixels.mutable_values<std::uint8_t>().begin());
        return pixels;
      },
      {.name = "pixels", .adds = {{component, DType::u8, shape}}});
}

}  // namespace

Dataset open_examples(const std::vector<std::string>& paths, const TrainDataOptions& options) {
  if (options.takes.empty())
    throw UsageError("this model does not name its features; use --pipeline to parse them");
  const Dataset records = tfrecord(paths);
  const Features features = features_of_first(records);
  std::vector<FeatureSpec> specs;
  std::vector<std::pair<std::string, Shape>> pixels;
  for (const towers::TakenComponent& taken : options.takes) {
    const std::vector<std::string> keys = keys_for(taken.name, options);
    const auto found =
        std::ranges::find_if(keys, [&](const std::string& key) { return features.contains(key); });
    if (found == keys.end()) {
      if (!options.labels && taken.name == "label") continue;
      throw UsageError("the examples have no feature " + join(keys, " or ") + " for the model's " +
                       taken.name + ", but " + list_of(features) + "; name one by --component " +
                       taken.name + "=KEY");
    }
    const Chosen chosen = choose_form(taken, *found, features.at(*found));
    specs.push_back(chosen.spec);
    if (chosen.pixels) pixels.emplace_back(taken.name, *chosen.pixels);
  }
  if (const std::string& key = options.weight_column; !key.empty()) {
    const auto found = features.find(key);
    if (found == features.end())
      throw UsageError("the examples have no feature " + in_quotes(key) + ", but " +
                       list_of(features));
    const char kind = found->second;
    specs.push_back({.key = key,
                     .dtype = kind == 'i'   ? DType::i64
                              : kind == 'b' ? DType::bytes
                                            : DType::f32});
  }
  Dataset parsed = records.map_op(parse_example(std::move(specs)));
  for (const auto& [component, shape] : pixels) parsed = as_pixels(parsed, component, shape);
  return parsed;
}

}  // namespace penstock::tool
