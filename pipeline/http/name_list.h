// Lists of names, and patterns of URLs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::http {

/// Returns the names in `text`, one a line, as URLs in ascending order without duplicates. Blank
/// lines and lines that begin with '#' are skipped. Names that are no URLs are relative to the
/// location of the list. `list` is named in errors: Error{invalid_argument} with the line's number,
/// Error{out_of_range} for more than ten million names.
std::vector<std::string> parse_name_list(std::string_view text, const std::string& list);

/// Returns true if the part of a URL before its query has a '*' or a '['.
bool is_url_pattern(std::string_view url) noexcept;

}  // namespace penstock::http
