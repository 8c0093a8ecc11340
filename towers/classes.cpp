#include "towers/classes.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include <nlohmann/json.hpp>

#include <penstock/error.h>
#include <penstock/log.h>
#include <penstock/map.h>
#include <penstock/sources.h>

namespace penstock::towers {
namespace {

constexpr std::size_t kMostShown = 10;

std::string list_of(const std::vector<std::string>& classes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostShown, classes.size()); ++i)
    text += (i > 0 ? ", " : "") + classes[i];
  if (classes.size() > kMostShown)
    text += ", and " + std::to_string(classes.size() - kMostShown) + " more";
  return text;
}

bool has_labels(const Dataset& data) {
  const int at = data.spec().find("label");
  return at >= 0 && data.spec()[static_cast<std::size_t>(at)].dtype == DType::i64;
}

}  // namespace

std::vector<std::string> classes_of(const Dataset& data) {
  std::vector<std::string> classes = classes_in(text_of_classes(class_names(data)));
  std::set<std::string> seen;
  for (const std::string& name : classes)
    if (!seen.insert(name).second)
      throw Error(ErrorCode::invalid_argument,
                  "the names of two classes differ only in bytes that are not UTF-8: " + name);
  return classes;
}

Dataset with_classes(const Dataset& data, const std::vector<std::string>& classes,
                     const std::string& what) {
  const std::vector<std::string> own = classes_of(data);
  if (own == classes || !has_labels(data)) return data;
  if (own.empty() || classes.empty()) {
    if (own.empty() && !classes.empty())
      log(LogLevel::warning, what + " do not name their classes: label 0 is taken for " +
                                 classes.front() + ", and so on");
    return data;
  }
  std::vector<std::int64_t> label_of;
  for (const std::string& name : own) {
    const auto at = std::ranges::find(classes, name);
    if (at == classes.end())
      throw Error(ErrorCode::invalid_argument, what + " have a class " + name +
                                                   ", which the model does not know; it knows " +
                                                   list_of(classes));
    label_of.push_back(at - classes.begin());
  }
  const auto relabel = [label_of = std::move(label_of)](Element& element, Rng& /*rng*/) {
    const auto label = element["label"].item<std::int64_t>();
    if (label < 0 || label >= static_cast<std::int64_t>(label_of.size()))
      throw Error(ErrorCode::mismatch, "label " + std::to_string(label) + " is not one of " +
                                           std::to_string(label_of.size()) + " classes");
    element.set("label", Tensor::scalar(label_of[static_cast<std::size_t>(label)]));
  };
  return data.map_op(make_in_place_op(relabel, {.name = "match_classes"}, false));
}

std::string text_of_classes(const std::vector<std::string>& classes) {
  return nlohmann::json(classes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> classes_in(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto is_text = [](const nlohmann::json& one) { return one.is_string(); };
  if (!json.is_array() || !std::ranges::all_of(json, is_text))
    throw Error(ErrorCode::data_loss, "its classes are not a list of names");
  return json.get<std::vector<std::string>>();
}

}  // namespace penstock::towers
