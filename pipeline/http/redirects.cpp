#include "pipeline/http/redirects.h"

#include <algorithm>

#include <penstock/error.h>

#include "pipeline/http/address.h"

namespace penstock::http {
namespace {

constexpr int kMostRedirects = 5;
constexpr std::size_t kMostTargets = 1'000'000;

std::string key_of(const Url& url) {
  return url.userinfo + '@' + url.whole();
}

/// Returns true if the query has credentials, as presigned URLs have.
bool is_signed(std::string_view query) {
  constexpr std::string_view kNames[] = {"signature", "sig",     "token",  "credential",
                                         "key",       "api_key", "apikey", "access_token",
                                         "password",  "auth"};
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    std::string name(part.substr(0, part.find('=')));
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool service = name.starts_with("x-amz-") || name.starts_with("x-goog-");
    if (service || std::ranges::find(kNames, name) != std::end(kNames)) return true;
  }
  return false;
}

}  // namespace

Target Redirects::target_of(const Url& first) const {
  const std::string key = key_of(first);
  const MutexLock lock(mutex_);
  const auto found = targets_.find(key);
  return found != targets_.end() ? found->second : Target{first};
}

void Redirects::remember(const Url& first, const Target& target) {
  const std::string key = key_of(first);
  const MutexLock lock(mutex_);
  if (targets_.size() < kMostTargets || targets_.contains(key)) targets_[key] = target;
}

void Redirects::forget(const Url& first) {
  const std::string key = key_of(first);
  const MutexLock lock(mutex_);
  targets_.erase(key);
}

void Route::begin(const Url& first) {
  first_ = first;
  target_ = authorized_ ? Target{first} : redirects_.target_of(first);
  known_ = !authorized_ && (target_.url.whole() != first.whole());
  followed_ = 0;
}

void Route::follow(const std::string& location, bool private_peer) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, why, {.shard = path_});
  };
  if (++followed_ > kMostRedirects) refuse("the server redirects in circles");
  const Url& from = target_.url;
  Url to = resolve(from, location);
  const bool same = to.same_origin(from);
  const std::string where =
      "the server redirects to another, " + to.origin() + ", which is refused";
  if (!same && (authorized_ || !from.userinfo.empty() || is_signed(from.query)))
    refuse(where + ": this request's credentials are not for that server");
  if (from.scheme == "https" && to.scheme != "https") refuse(where + ": it would drop TLS");
  to.userinfo = same ? from.userinfo : std::string();
  if (!same) target_.public_only = target_.public_only || !private_peer;
  if (target_.public_only && is_private_host(to.host))
    refuse(where + ": it is an address of a private network, and the first server is public");
  target_.url = std::move(to);
}

bool Route::failed(int status) {
  const bool may_have_expired = status >= 400 && status < 500 && status != 408 && status != 429;
  if (!known_ || !may_have_expired) return false;
  known_ = false;
  redirects_.forget(first_);
  target_ = {first_};
  return true;
}

void Route::succeeded() {
  if (followed_ == 0 || authorized_) return;
  redirects_.remember(first_, target_);
  followed_ = 0;
}

}  // namespace penstock::http
