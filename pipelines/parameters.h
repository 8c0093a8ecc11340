// Short functions that make the parameters in the tables of kinds.
#pragma once

#include <string>
#include <utility>

#include "pipelines/settings.h"

namespace penstock::tool {

inline constexpr double kMostCount = 9e18;

inline Parameter count(std::string name, std::string help, bool required = true, double least = 1) {
  return {std::move(name), ValueType::integer, std::move(help), required, least, kMostCount};
}

inline Parameter text(std::string name, std::string help, List choices, bool required = false) {
  Parameter parameter{std::move(name), ValueType::text, std::move(help), required};
  parameter.choices = std::move(choices);
  return parameter;
}

/// A text of any content. `form` says what it holds, as in --help: DIR.
inline Parameter open_text(std::string name, std::string help, std::string form) {
  Parameter parameter{std::move(name), ValueType::text, std::move(help)};
  parameter.form = std::move(form);
  return parameter;
}

inline Parameter flag(std::string name, std::string help) {
  return {std::move(name), ValueType::boolean, std::move(help)};
}

/// Returns the value that was given, or `fallback`.
inline std::int64_t integer(const Settings& settings, const char* name, std::int64_t fallback) {
  return settings.get(name, std::int64_t{fallback});
}

}  // namespace penstock::tool
