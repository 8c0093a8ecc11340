// URLs of http and https by RFC 3986, as far as reading data needs them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::http {

struct Url {
  std::string scheme;    ///< "http" or "https"
  std::string userinfo;  ///< "user:password", not decoded; empty if there is none
  std::string host;      ///< in lowercase; an IPv6 address with its brackets
  std::uint16_t port = 0;
  std::string path;   ///< begins with '/'
  std::string query;  ///< without its '?'; secret

  /// Returns "https://host:8443". The scheme's default port is left out.
  std::string origin() const;
  /// Returns the URL without userinfo and query, which may be shown.
  std::string shown() const;
  /// Returns the URL without the userinfo, as a request needs it.
  std::string whole() const;

  bool same_origin(const Url& other) const noexcept {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
};

/// Parses a URL. Drops a fragment. Encodes spaces, control characters and bytes beyond ASCII, so
/// that you may write a path unencoded. Throws Error{invalid_argument} for other text; the message
/// never shows secrets.
Url parse_url(std::string_view text);
/// Returns true for paths of S3: s3://.
bool is_s3(std::string_view path) noexcept;
/// Returns true for paths of Google's storage: gs://.
bool is_gs(std::string_view path) noexcept;
/// Returns true for http:// and https://.
bool is_http(std::string_view path) noexcept;

/// Resolves `reference` on the page `base`. It may be a URL, "//host/path", "/path", or a path
/// relative to the folder of `base`. Throws as parse_url.
Url resolve(const Url& base, std::string_view reference);

/// Writes every byte except letters, digits and -._~ as %XX. `keep_slashes` also keeps '/'.
std::string percent_encoded(std::string_view text, bool keep_slashes);

/// Returns the URL up to the last '/' of its path, without query and userinfo.
std::string folder_url(const Url& url);

}  // namespace penstock::http
