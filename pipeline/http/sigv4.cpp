#include "pipeline/http/sigv4.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <span>

namespace penstock::http {
namespace {

std::string_view as_key(const Sha256& digest) noexcept {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string lower_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Trims blanks, and replaces several blanks within the text by one.
std::string collapsed(std::string_view value) {
  std::string out;
  bool blank = false;
  for (const char c : value) {
    if (c == ' ' || c == '\t') {
      blank = !out.empty();
      continue;
    }
    if (blank) out += ' ';
    blank = false;
    out += c;
  }
  return out;
}

std::string sorted_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    pairs.emplace_back(one.substr(0, equals),
                       equals < one.size() ? one.substr(equals + 1) : std::string_view());
  }
  std::sort(pairs.begin(), pairs.end());
  std::string out;
  for (const auto& [name, value] : pairs)
    out.append(out.empty() ? "" : "&").append(name).append("=").append(value);
  return out;
}

std::vector<std::pair<std::string, std::string>> signed_headers(const SignedRequest& request) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto& [name, value] : request.headers)
    headers.emplace_back(lower_name(name), collapsed(value));
  std::sort(headers.begin(), headers.end());
  return headers;
}

std::string names_of(const SignedRequest& request) {
  std::string names;
  for (const auto& [name, value] : signed_headers(request))
    names.append(names.empty() ? "" : ";").append(name);
  return names;
}

std::string scope_text(const SigningScope& scope) {
  return amz_date(scope.unix_time).substr(0, 8) + '/' + scope.region + '/' + scope.service +
         "/aws4_request";
}

}  // namespace

std::string hex_of(const Sha256& digest) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : digest) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::string amz_date(std::int64_t unix_time) {
  const auto time = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return {text, size};
}

std::string canonical_request(const SignedRequest& request) {
  std::string text =
      request.method + '\n' + request.path + '\n' + sorted_query(request.query) + '\n';
  for (const auto& [name, value] : signed_headers(request)) text += name + ':' + value + '\n';
  return text + '\n' + names_of(request) + '\n' + request.payload_sha256;
}

std::string string_to_sign(const RemoteModule& module, const SigningScope& scope,
                           const std::string& canonical) {
  return "AWS4-HMAC-SHA256\n" + amz_date(scope.unix_time) + '\n' + scope_text(scope) + '\n' +
         hex_of(module.sha256(canonical));
}

std::string authorization(const RemoteModule& module, const AwsCredentials& credentials,
                          const SigningScope& scope, const SignedRequest& request) {
  const std::string day = amz_date(scope.unix_time).substr(0, 8);
  Sha256 key = module.hmac_sha256("AWS4" + credentials.secret_key, day);
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view("aws4_request")})
    key = module.hmac_sha256(as_key(key), part);
  const std::string signature = hex_of(
      module.hmac_sha256(as_key(key), string_to_sign(module, scope, canonical_request(request))));
  return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + '/' + scope_text(scope) +
         ", SignedHeaders=" + names_of(request) + ", Signature=" + signature;
}

}  // namespace penstock::http
