// HTTP's Basic authentication, RFC 7617.
#pragma once

#include <string>
#include <string_view>

namespace penstock::http {

/// Encodes in base64 (RFC 4648, section 4).
inline std::string base64(std::string_view plain) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < plain.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < plain.size() ? static_cast<unsigned char>(plain[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= plain.size() ? kLetters[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

/// Returns the base64 of a URL's "user:password", in which bytes may be written as %XX.
inline std::string basic_credentials(std::string_view userinfo) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string plain;
  for (std::size_t i = 0; i < userinfo.size(); ++i) {
    const bool encoded = userinfo[i] == '%' && i + 2 < userinfo.size() &&
                         digit(userinfo[i + 1]) >= 0 && digit(userinfo[i + 2]) >= 0;
    plain += encoded ? static_cast<char>(digit(userinfo[i + 1]) * 16 + digit(userinfo[i + 2]))
                     : userinfo[i];
    if (encoded) i += 2;
  }
  return base64(plain);
}

}  // namespace penstock::http
