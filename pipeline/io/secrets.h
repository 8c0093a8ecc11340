// Keeps queries and credentials of URLs out of everything that users see.
#pragma once

#include <string>
#include <string_view>

#include "pipeline/io/url.h"

namespace penstock::http {

/// Returns the full URL of a path that hide_secrets may have made. Throws as parse_url, and
/// Error{invalid_argument} if this process does not know the path's secret. Thread-safe.
Url reveal(const std::string& path);

/// Returns `text` with "…" in place of each of `secrets` that is not empty.
std::string scrubbed(std::string text, std::initializer_list<std::string_view> secrets);

}  // namespace penstock::http
