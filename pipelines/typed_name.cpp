#include "pipelines/typed_name.h"

#include <string_view>

namespace penstock::tool {
namespace {

/// Returns the dtype with whose name and an equals sign `text` begins.
std::optional<DType> dtype_before_equals(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string_view name = name_of(dtype);
    if (text.starts_with(name) && text.substr(name.size()).starts_with('=')) return dtype;
  }
  return std::nullopt;
}

}  // namespace

TypedName parse_typed_name(const std::string& text) {
  // The default may be any text, so the first type in front of an equals sign counts.
  for (std::size_t colon = text.find(':'); colon != text.npos; colon = text.find(':', colon + 1)) {
    const std::string_view rest = std::string_view(text).substr(colon + 1);
    const std::optional<DType> dtype = dtype_before_equals(rest);
    if (!dtype) continue;
    return {text.substr(0, colon), dtype, std::string(rest.substr(name_of(*dtype).size() + 1))};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return {text, std::nullopt, std::nullopt};
  return {text.substr(0, colon), dtype_from_name(text.substr(colon + 1)), std::nullopt};
}

}  // namespace penstock::tool
