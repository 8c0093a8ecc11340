// Redirects: which are followed, and where they led to.
#pragma once

#include <map>
#include <string>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/answer.h"
#include "pipeline/io/url.h"

namespace penstock::http {

/// Where a request is sent.
struct Target {
  Url url;
  bool public_only = false;  ///< a loopback, link-local or private address is refused
};

/// The targets of URLs that were redirected, for all later requests. Thread-safe.
class Redirects {
 public:
  /// Returns the target of a URL: itself, unless it was redirected.
  Target target_of(const Url& first) const EXCLUDES(mutex_);
  void remember(const Url& first, const Target& target) EXCLUDES(mutex_);
  void forget(const Url& first) EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::string, Target> targets_ GUARDED_BY(mutex_);
};

/// The way of one request through redirects. A redirect to another server is followed if neither
/// the request nor its URL carries credentials. None leads from https to http, or from a public
/// address to one that is not. Used by one thread.
class Route {
 public:
  /// `path` is shown in errors. `authorized`: requests have the authorization of a service.
  /// REQUIRES: `redirects` outlives it.
  Route(Redirects& redirects, std::string path, bool authorized)
      : redirects_(redirects), path_(std::move(path)), authorized_(authorized) {}

  void begin(const Url& first);
  const Target& target() const noexcept { return target_; }
  /// Sends the request to another URL of the same service.
  void move(Url url) { target_.url = std::move(url); }
  /// Follows a redirect. `private_peer`: the server that sent it has no public address. Throws
  /// Error{invalid_argument} if it must not be followed, or is the sixth.
  void follow(const std::string& location, bool private_peer);
  /// Takes note of an answer that is not good. Returns true if the target was one of an earlier
  /// request, and may have expired as those that are signed do: the request then goes the whole way
  /// again.
  bool failed(int status);
  /// Takes note of a good answer.
  void succeeded();

 private:
  Redirects& redirects_;
  const std::string path_;
  const bool authorized_;
  Url first_;
  Target target_;
  bool known_ = false;  // the target is that of an earlier request
  int followed_ = 0;
};

}  // namespace penstock::http
