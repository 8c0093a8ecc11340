// Texts in the form that JSON requires.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// Returns `text` as a JSON string, with quotes. Bytes that are not valid UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

bool is_utf8(std::string_view text);
/// Returns the bytes in hexadecimal: "00ff" for a zero byte and a byte of ones.
std::string hex_of(std::string_view bytes);

}  // namespace penstock
