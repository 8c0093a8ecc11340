#include <penstock/towers/model_input.h>

#include <algorithm>
#include <utility>

#include <penstock/error.h>
#include <penstock/sources.h>
#include <penstock/towers/classifier.h>

#include "towers/label_check.h"

namespace penstock::towers {
namespace {

std::string text_of(DType dtype, const Shape& shape) {
  return std::string(name_of(dtype)) + " " + shape.to_string();
}

}  // namespace

void check_input(std::string_view model, const Spec& data,
                 const std::vector<TakenComponent>& takes) {
  for (const TakenComponent& taken : takes) {
    std::string wanted;
    for (const TakenComponent::Form& form : taken.forms)
      wanted += (wanted.empty() ? "" : " or ") + text_of(form.dtype, form.shape);
    const auto refuse = [&](const std::string& found) {
      throw Error(ErrorCode::invalid_argument, std::string(model) + " takes " + taken.name + ": " +
                                                   wanted + "; the data have " + found);
    };
    const int at = data.find(taken.name);
    if (at < 0) refuse("no " + taken.name + ", but " + data.to_string());
    const ComponentSpec& found = data[static_cast<std::size_t>(at)];
    const auto fits = [&](const TakenComponent::Form& form) {
      return form.dtype == found.dtype && form.shape.accepts(found.shape);
    };
    if (!std::ranges::any_of(taken.forms, fits))
      refuse(found.name + ": " + text_of(found.dtype, found.shape));
  }
}

Dataset model_input(const ModelKind& kind, const Dataset& stored, bool training) {
  const Spec& spec = stored.spec();
  const auto is_there = [&spec](const ComponentSpec& component) {
    const int at = spec.find(component.name);
    return at >= 0 && spec[static_cast<std::size_t>(at)] == component;
  };
  if (kind.ready.size() == 0 || !std::ranges::all_of(kind.ready, is_there))
    return kind.input(stored, training);
  std::vector<ComponentSpec> kept(kind.ready.begin(), kind.ready.end());
  for (const ComponentSpec& carried : carried_in(kind.name, spec)) kept.push_back(carried);
  const Spec output(kept);
  if (spec == output) return with_label_check(stored, kind.classes);
  return stored.map(
      [names = std::move(kept), check = LabelCheck(stored, kind.classes)](Element in) {
        if (in.has("label")) check(in, in["label"].item<std::int64_t>());
        Element out;
        for (const ComponentSpec& component : names) out.set(component.name, in[component.name]);
        return out;
      },
      {.name = "select", .output = output});
}

Dataset model_input_on_device(const ModelKind& kind, const Dataset& stored, bool training) {
  if (!kind.images)
    throw Error(ErrorCode::invalid_argument,
                kind.name + " takes no images that a device could decode");
  const ImageOps ops = kind.images(training);
  check_input(kind.name, stored.spec(),
              {{ops.component(), {{DType::bytes, {}}}}, {"label", {{DType::i64, {}}}}});
  static_cast<void>(kind.input(stored, training));  // checks the rest
  return image_and_label(stored, kind.classes).map(ops.on_device());
}

std::vector<ComponentSpec> carried_in(std::string_view model, const Spec& data) {
  std::vector<ComponentSpec> carried;
  for (const auto& [name, dtype] : {std::pair(kWeight, DType::f32), std::pair(kRow, DType::i64)}) {
    if (data.find(name) < 0) continue;
    check_input(model, data, {{name, {{dtype, {}}}}});
    carried.push_back(data[data.require(name)]);
  }
  return carried;
}

void carry(const Element& in, Element& out) {
  if (out.has(kWeight)) out[kWeight].mutable_values<float>()[0] = in[kWeight].item<float>();
  if (out.has(kRow)) out[kRow].mutable_values<std::int64_t>()[0] = in[kRow].item<std::int64_t>();
}

void check_classes(std::string_view model, const Dataset& data, std::int64_t outputs) {
  if (data.spec().find(kRow) >= 0) return;  // rows for prediction need no labels
  const std::size_t count = class_names(data).size();
  if (count > static_cast<std::size_t>(outputs))
    throw Error(ErrorCode::invalid_argument,
                std::string(model) + " tells " + std::to_string(outputs) +
                    " classes apart; the data have " + std::to_string(count));
}

}  // namespace penstock::towers
