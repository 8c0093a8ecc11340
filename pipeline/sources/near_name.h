// Names that differ only in what a reader overlooks.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the one of `names` that is equal to `name` but for blanks, case, quotes and byte order
/// marks, and the differences: "' value', which differs in blanks". Returns an empty text if there
/// is none. Ignores the case of ASCII letters only. No-break spaces are blanks.
std::string near_name(std::string_view name, std::span<const std::string> names);

}  // namespace penstock
