// The schemes of paths on servers.
#pragma once

#include <string_view>

namespace penstock::http {

/// Returns true for paths of S3: s3://.
bool is_s3(std::string_view path) noexcept;
/// Returns true for paths of Google's storage: gs://.
bool is_gs(std::string_view path) noexcept;
/// Returns true for http:// and https://.
bool is_http(std::string_view path) noexcept;

}  // namespace penstock::http
