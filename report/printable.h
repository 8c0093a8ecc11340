// Foreign text in a form that is safe to print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// Returns the number of bytes of the well-formed UTF-8 sequence that starts at `at`; 0 if there is
/// none. REQUIRES: `at` is within the text.
std::size_t utf8_length(std::string_view text, std::size_t at);
/// Returns the text with control characters and invalid UTF-8 written as \xNN. Names from files may
/// hold any bytes, and must not reach a terminal unchanged.
std::string printable(std::string_view text);

}  // namespace penstock
