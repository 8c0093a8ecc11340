#include "towers/label_check.h"

#include <utility>

#include <penstock/error.h>
#include <penstock/map.h>
#include <penstock/sources.h>

namespace penstock::towers {

LabelCheck::LabelCheck(const Dataset& data, std::int64_t classes)
    : classes_(classes), extension_(label_extension(data)) {}

void LabelCheck::operator()(const Element& in, std::int64_t label) const {
  if (classes_ == 0 || (label >= 0 && label < classes_)) return;
  Provenance where;
  if (!extension_.empty() && in.has("key") && in["key"].dtype() == DType::bytes)
    where.member = std::string(in["key"].bytes_at()) + extension_;
  throw Error(
      ErrorCode::mismatch,
      "label " + std::to_string(label) + " is not one of " + std::to_string(classes_) + " classes",
      std::move(where));
}

Dataset with_label_check(const Dataset& data, std::int64_t classes) {
  if (classes == 0 || data.spec().find("label") < 0 || !class_names(data).empty()) return data;
  const auto look = [check = LabelCheck(data, classes)](Element& element, Rng& /*rng*/) {
    check(element, element["label"].item<std::int64_t>());
  };
  return data.map_op(make_in_place_op(look, {.name = "check_label"}, false));
}

}  // namespace penstock::towers
