#include "pipeline/io/url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include <penstock/error.h>
#include <penstock/remote_files.h>

namespace penstock::http {
namespace {

constexpr std::size_t kMostUrlBytes = 16 << 10;

char small_letter(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string in_small_letters(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), small_letter);
  return out;
}

bool starts_with_scheme(std::string_view text, std::string_view scheme) noexcept {
  if (text.size() < scheme.size() + 3) return false;
  for (std::size_t i = 0; i < scheme.size(); ++i)
    if (small_letter(text[i]) != scheme[i]) return false;
  return text.substr(scheme.size(), 3) == "://";
}

std::uint16_t usual_port(std::string_view scheme) noexcept {
  return scheme == "https" ? 443 : 80;
}

[[noreturn]] void refuse_url(const std::string& why, const std::string& shown) {
  throw Error(ErrorCode::invalid_argument, "can't read this URL: " + why, {.shard = shown});
}

void append_percent(std::string& out, char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += '%';
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

/// Encodes bytes that a URL can't have; those with a meaning stay.
std::string made_safe(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || std::string_view("\"<>\\^`{|}").find(c) != text.npos) {
      append_percent(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

bool is_host(std::string_view host) noexcept {
  if (host.empty() || host.size() > 255) return false;
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (bracketed) host = host.substr(1, host.size() - 2);
  return std::all_of(host.begin(), host.end(), [&](char c) {
    if (bracketed) return std::string_view("0123456789abcdef:.%").find(c) != host.npos;
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

/// "/a/./b/../c" as "/a/c", RFC 3986 5.2.4.
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  std::size_t from = 1;
  bool folder = false;
  while (from <= path.size()) {
    const std::size_t to = std::min(path.find('/', from), path.size());
    const std::string_view part = path.substr(from, to - from);
    folder = part == "." || part == ".." || (part.empty() && to == path.size());
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != "." && !(part.empty() && to == path.size())) {
      parts.push_back(part);
    }
    from = to + 1;
  }
  std::string out;
  for (const std::string_view part : parts) out.append("/").append(part);
  return out.empty() || folder ? out + '/' : out;
}

}  // namespace

std::string Url::origin() const {
  std::string out = scheme + "://" + host;
  if (port != usual_port(scheme)) out += ':' + std::to_string(port);
  return out;
}

std::string Url::shown() const {
  return origin() + path;
}

std::string Url::whole() const {
  return shown() + (query.empty() ? "" : '?' + query);
}

Url parse_url(std::string_view text) {
  Url url;
  for (const std::string_view scheme : {"http", "https"})
    if (starts_with_scheme(text, scheme)) url.scheme = scheme;
  if (url.scheme.empty()) refuse_url("it begins with neither http:// nor https://", "");
  if (text.size() > kMostUrlBytes) refuse_url("it is too long", url.scheme + "://…");
  std::string_view rest = text.substr(url.scheme.size() + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::size_t path_at = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, path_at);
  rest = rest.substr(path_at);
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    url.userinfo = authority.substr(0, at);
    authority = authority.substr(at + 1);
  }
  const std::size_t colon = authority.rfind(':');
  const bool has_port = colon != authority.npos && authority.find(']', colon) == authority.npos;
  url.host = in_small_letters(authority.substr(0, has_port ? colon : authority.npos));
  url.port = usual_port(url.scheme);
  const std::string shown = url.scheme + "://" + made_safe(url.host);
  if (!is_host(url.host)) refuse_url("its host is invalid", shown);
  if (has_port) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (error != std::errc() || end != digits.data() + digits.size() || url.port == 0)
      refuse_url("its port is invalid", shown);
  }
  const std::size_t query = rest.find('?');
  url.path = made_safe(rest.substr(0, query));
  if (url.path.empty()) url.path = "/";
  if (query != rest.npos) url.query = made_safe(rest.substr(query + 1));
  return url;
}

Url resolve(const Url& base, std::string_view reference) {
  if (is_http(reference)) return parse_url(reference);
  if (reference.find("://") < reference.find_first_of("/?"))
    refuse_url("its scheme is neither http nor https", base.origin());
  if (reference.starts_with("//")) return parse_url(base.scheme + ':' + std::string(reference));
  const std::string from =
      base.origin() +
      (reference.starts_with('/') ? "" : base.path.substr(0, base.path.rfind('/') + 1));
  Url url = parse_url(from + std::string(reference));
  url.path = without_dots(url.path);
  url.userinfo = base.userinfo;
  return url;
}

bool is_s3(std::string_view path) noexcept {
  return path.starts_with("s3://");
}

bool is_gs(std::string_view path) noexcept {
  return path.starts_with("gs://");
}

bool is_http(std::string_view path) noexcept {
  return starts_with_scheme(path, "http") || starts_with_scheme(path, "https");
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    if (plain) {
      out += c;
    } else {
      append_percent(out, c);
    }
  }
  return out;
}

std::string folder_url(const Url& url) {
  return url.origin() + url.path.substr(0, url.path.rfind('/') + 1);
}

}  // namespace penstock::http

namespace penstock {

bool is_remote(std::string_view path) noexcept {
  return http::is_http(path) || http::is_s3(path) || http::is_gs(path);
}

std::string_view without_query(std::string_view path) noexcept {
  return http::is_http(path) ? path.substr(0, path.find('?')) : path;
}

std::uint64_t version_of(std::string_view path, const FileInfo& info) noexcept {
  return is_remote(path) ? info.inode : 0;  // where HttpClient::find puts it
}

}  // namespace penstock
