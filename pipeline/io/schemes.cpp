#include "pipeline/io/schemes.h"

#include <penstock/remote_files.h>

namespace penstock::http {
namespace {

bool starts_with_scheme(std::string_view text, std::string_view scheme) noexcept {
  const auto small_letter = [](char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  if (text.size() < scheme.size() + 3) return false;
  for (std::size_t i = 0; i < scheme.size(); ++i)
    if (small_letter(text[i]) != scheme[i]) return false;
  return text.substr(scheme.size(), 3) == "://";
}

}  // namespace

bool is_s3(std::string_view path) noexcept {
  return path.starts_with("s3://");
}

bool is_gs(std::string_view path) noexcept {
  return path.starts_with("gs://");
}

bool is_http(std::string_view path) noexcept {
  return starts_with_scheme(path, "http") || starts_with_scheme(path, "https");
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
