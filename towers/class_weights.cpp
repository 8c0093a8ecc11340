#include <penstock/towers/class_weights.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include <penstock/error.h>
#include <penstock/map.h>
#include <penstock/towers/model.h>

#include "towers/classes.h"
#include "towers/numbers.h"

namespace penstock::towers {
namespace {

std::int64_t label_of(const std::string& name, const std::vector<std::string>& classes) {
  if (!classes.empty()) {
    const auto at = std::ranges::find(classes, name);
    if (at == classes.end())
      throw Error(ErrorCode::invalid_argument,
                  "there is a weight for class " + name + ", which does not exist");
    return at - classes.begin();
  }
  std::int64_t label = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), label);
  if (error != std::errc() || end != name.data() + name.size() || label < 0)
    throw Error(ErrorCode::invalid_argument,
                "there is a weight for class " + name +
                    ", but the data do not name their classes: give the label's number");
  return label;
}

float checked(double weight) {
  if (!(weight >= 0 && std::isfinite(weight)))
    throw Error(
        ErrorCode::mismatch,
        exact_text(weight) + " is not a weight: a weight must be a finite number, 0 or more");
  return static_cast<float>(weight);
}

}  // namespace

std::string text_of_weights(const std::vector<ClassWeight>& weights) {
  std::string text;
  for (const ClassWeight& one : weights)
    text += (text.empty() ? "" : ", ") + one.name + " " + exact_text(one.weight);
  return text;
}

Dataset labelled(const Dataset& data, const std::vector<std::string>& classes,
                 const std::vector<ClassWeight>& weights, const std::string& what) {
  const Dataset counted = with_classes(data, classes, what);
  const bool weighted = counted.spec().find(kWeight) >= 0;
  if (weights.empty() && !weighted) return counted;
  std::map<std::int64_t, double> of_label;
  for (const ClassWeight& one : weights) of_label[label_of(one.name, classes)] = one.weight;
  const int label = counted.spec().find("label");
  if (!weights.empty() &&
      (label < 0 || counted.spec()[static_cast<std::size_t>(label)].dtype != DType::i64))
    throw Error(ErrorCode::invalid_argument, what + " have no labels, so classes have no weights");
  const auto weigh = [of_label = std::move(of_label), weighted](Element& element, Rng& /*rng*/) {
    double weight = weighted ? static_cast<double>(element[kWeight].item<float>()) : 1;
    if (!of_label.empty()) {
      const auto found = of_label.find(element["label"].item<std::int64_t>());
      if (found != of_label.end()) weight *= found->second;
    }
    element.set(kWeight, Tensor::scalar(checked(weight)));
  };
  MapOptions options{.name = "weigh"};
  if (!weighted) options.adds = {{kWeight, DType::f32, {}}};
  return counted.map_op(
      make_in_place_op(weigh, resolve_adds(std::move(options), counted.spec()), false));
}

}  // namespace penstock::towers
