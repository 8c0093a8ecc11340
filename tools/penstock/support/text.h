// Small things with text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::tool {

/// Bytes of the well-formed UTF-8 sequence that starts at `at`; 0 if there is none. REQUIRES: at is
/// within the text.
std::size_t utf8_length(std::string_view text, std::size_t at);
/// In quotes, cut to 80 characters, control characters and broken UTF-8 shown as \xNN: names from
/// files may hold anything and must not reach a terminal as they are.
std::string in_quotes(std::string_view text);
/// The same without quotes and without a cut.
std::string printable(std::string_view text);
/// ASCII alone.
std::string lower(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// At every separator; an empty text is one empty part.
std::vector<std::string> split(std::string_view text, char separator);
/// The word of `known` that `word` was probably meant to be (at most two edits), or "".
std::string closest(std::string_view word, const std::vector<std::string>& known);
/// "; did you mean x?" with the closest word, or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace penstock::tool
