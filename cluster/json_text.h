// JSON in flags and variables.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::cluster {

/// Parses JSON. Throws Error{invalid_argument}, which begins with `what`, for text that is not JSON
/// or is nested deeper than 32 levels. It throws the same for an object with two values of one
/// name, neither of which can be trusted.
nlohmann::json parse_json(std::string_view text, const std::string& what);

}  // namespace penstock::cluster
