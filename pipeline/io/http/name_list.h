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

/// Expands "a-{0..2}{x,y}.tar" to a-0x.tar, a-0y.tar, …: numbers keep the leading zeros of the
/// first one. Other braces are left as they are. Throws Error{out_of_range} for more than a million
/// names.
std::vector<std::string> expand_braces(const std::string& pattern);

/// Returns true if the part of a URL before its query has a '*' or a '['.
bool is_url_pattern(std::string_view url) noexcept;

}  // namespace penstock::http
