#include "pipeline/io/secrets.h"

#include <cinttypes>
#include <cstdio>
#include <map>
#include <utility>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/remote_files.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace http {
namespace {

constexpr std::string_view kHidden = "?hidden-";

/// The numbers that replace secrets, and the secrets: as many as a process was given, which is as
/// many as it has URLs.
class SecretKeeper {
 public:
  std::string hide(const Url& url) EXCLUDES(mutex_) {
    const std::string secret = url.userinfo + '@' + url.query;
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016" PRIx64,
                  static_cast<std::uint64_t>(XXH3_64bits(secret.data(), secret.size())));
    std::string shown = url.shown() + std::string(kHidden) + digits;
    const MutexLock lock(mutex_);
    secrets_[shown] = {url.userinfo, url.query};
    return shown;
  }
  bool find(const std::string& shown, Url& url) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = secrets_.find(shown);
    if (found == secrets_.end()) return false;
    url.userinfo = found->second.first;
    url.query = found->second.second;
    return true;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::pair<std::string, std::string>> secrets_ GUARDED_BY(mutex_);
};

SecretKeeper& keeper() {
  static auto* const keeper = new SecretKeeper;  // outlives all readers at exit
  return *keeper;
}

}  // namespace

Url reveal(const std::string& path) {
  Url url = parse_url(path);
  if (path.find(kHidden) == path.npos) return url;
  url.query.clear();
  if (!keeper().find(path, url))
    throw Error(ErrorCode::invalid_argument,
                "the query of this URL was removed when it was saved: give it again",
                {.shard = path});
  return url;
}

std::string scrubbed(std::string text, std::initializer_list<std::string_view> secrets) {
  for (const std::string_view secret : secrets) {
    if (secret.empty()) continue;
    for (std::size_t at = text.find(secret); at != text.npos; at = text.find(secret, at))
      text.replace(at, secret.size(), "…");
  }
  return text;
}

}  // namespace http

std::string hide_secrets(const std::string& path) {
  if (!http::is_http(path) || path.find(http::kHidden) != path.npos) return path;
  const http::Url url = http::parse_url(path);
  if (url.query.empty() && url.userinfo.empty()) return path;
  return http::keeper().hide(url);
}

}  // namespace penstock
