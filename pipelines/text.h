// Small functions on text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/printable.h"  // IWYU pragma: export

namespace penstock::tool {

/// Returns `printable(text)` in quotes, cut to 80 characters.
std::string in_quotes(std::string_view text);
/// Returns the text in lower case; changes ASCII letters only.
std::string lower(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// Splits the text at every separator. An empty text gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);
/// Returns the word of `known` that `word` was probably meant to be (at most two edits), or "".
std::string closest(std::string_view word, const std::vector<std::string>& known);
/// Returns "; did you mean x?" with the closest word, or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace penstock::tool
