// Reads ranges of objects: sends requests, judges answers and retries.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <penstock/error.h>
#include <penstock/file_system.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/remote_files.h>

#include "pipeline/http/answer.h"
#include "pipeline/http/asking.h"
#include "pipeline/http/pace.h"
#include "pipeline/http/transport.h"
#include "pipeline/io/url.h"

namespace penstock::http {

/// An object pinned to the version that was found. A read of another version fails.
struct PinnedObject {
  std::string path;  ///< as shown to users
  Url url;
  FileInfo info;
  std::string etag;        ///< strong, or empty
  std::string modified{};  ///< Last-Modified
  bool rangeless = false;  ///< its server takes no ranges: it is read whole, or not at all
};

/// A range of an object and the memory it is read to.
struct RangePart {
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::byte* out = nullptr;
};

/// One request for parts in ascending order, including the bytes between them.
struct RangeGet {
  const PinnedObject* object = nullptr;  ///< object of the parts
  std::vector<RangePart> parts{};
  Status status{};

  std::uint64_t first() const noexcept { return parts.front().offset; }
  std::uint64_t end() const noexcept { return parts.back().offset + parts.back().size; }
};

class BlockCache;

/// Adds a service's authorization to requests. Thread-safe.
class Authorizer {
 public:
  virtual ~Authorizer() = default;
  /// Signs or authorizes the request. Throws Error{unavailable}.
  virtual void authorize(HttpRequest& request, const Url& url) = 0;
  /// Takes note that the server has refused the authorization of a request that was sent then.
  virtual void refused(std::chrono::steady_clock::time_point sent) = 0;
  /// Takes note that, according to the server, the object at `url` is in that region. Returns the
  /// URL to ask then, or nothing if that is not new.
  virtual std::optional<Url> moved(const Url& url, const std::string& region) = 0;
};

/// Sends requests to servers, and retries them. Thread-safe.
class HttpClient {
 public:
  /// `transport` null: the module's, opened at the first request. `authorizer` null: the URL's own
  /// user and password. `cache` null: nothing is cached.
  HttpClient(RemoteOptions options, std::unique_ptr<HttpTransport> transport,
             std::shared_ptr<Authorizer> authorizer = {}, std::shared_ptr<BlockCache> cache = {});

  const RemoteOptions& options() const noexcept { return options_; }
  Pace& pace() noexcept { return pace_; }
  /// Returns the cache for blocks of an object. Null if its server has no ranges, so that it is
  /// read as a whole, or names no versions.
  BlockCache* cache_of(const PinnedObject& object) const;

  /// Returns the object at a URL. Throws Error{not_found}, Error{unavailable}, or
  /// Error{invalid_argument} for an object that can't be read. All of them show `path`.
  PinnedObject find(const std::string& path, const Url& url);
  /// Carries out all requests, several at once, and waits for all of them. Each one's `status`
  /// tells its result. Sizes must be positive. `fresh`: bypasses the caches of proxies. Throws
  /// nothing but std::bad_alloc.
  void get(std::span<RangeGet> gets, bool fresh);
  /// Reads a small object whole, such as a list of files. Throws as `find`, and
  /// Error{out_of_range}.
  std::string get_whole(const std::string& path, const Url& url, std::size_t most_bytes);
  /// Sends this request once, as it is, and returns the service's answer. Throws
  /// Error{unavailable}, without the URL.
  std::string ask(const HttpRequest& request, std::size_t most_bytes);

  /// Returns the objects that sending a request needs.
  Asker asker();
  /// Returns `request` completed so that it can be sent to `url`, with its authorization. Throws
  /// Error{unavailable}.
  HttpRequest request_for(const Url& url, std::chrono::milliseconds timeout,
                          HttpRequest request = {});

 private:
  HttpTransport& transport();

  const RemoteOptions options_;
  Pace pace_;
  std::once_flag opened_;
  std::unique_ptr<HttpTransport> transport_;
  const std::shared_ptr<Authorizer> authorizer_;
  const std::shared_ptr<BlockCache> cache_;
  Redirects redirects_;
  Mutex mutex_;
  std::set<std::string> rangeless_ GUARDED_BY(mutex_);  // origins without range requests
  std::set<std::string> unmatched_ GUARDED_BY(mutex_);  // origins that refuse their own ETags
};

}  // namespace penstock::http
