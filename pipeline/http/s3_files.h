// Objects of S3, and of services with the same protocol.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipeline/http/credentials.h"
#include "pipeline/http/object_files.h"
#include "pipeline/http/object_write.h"
#include "pipeline/http/s3_endpoint.h"

namespace penstock::http {

/// The parts of "s3://bucket/a/key", or the same with gs://: the bucket, and the key, which may
/// have any bytes. Parsing throws Error{invalid_argument}.
struct S3Path {
  std::string bucket;
  std::string key;
};
S3Path parse_s3_path(const std::string& path);

/// Signs requests. Thread-safe.
class S3Signer final : public Authorizer {
 public:
  /// `requester_pays`: see RemoteOptions.
  S3Signer(std::shared_ptr<S3Endpoint> endpoint, std::shared_ptr<CredentialChain> credentials,
           bool requester_pays = false)
      : endpoint_(std::move(endpoint)),
        credentials_(std::move(credentials)),
        requester_pays_(requester_pays) {}

  void authorize(HttpRequest& request, const Url& url) override;
  void refused(std::chrono::steady_clock::time_point sent) override { credentials_->refused(sent); }
  std::optional<Url> moved(const Url& url, const std::string& region) override {
    return endpoint_->moved(url, region);
  }

 private:
  const std::shared_ptr<S3Endpoint> endpoint_;
  const std::shared_ptr<CredentialChain> credentials_;
  const bool requester_pays_;
};

/// The file system of s3:// and gs://. Looks up patterns and folders with ListObjectsV2, which also
/// gives sizes and ETags, so that objects it has listed need no further request. Thread-safe.
class S3FileSystem final : public ObjectFileSystem {
 public:
  /// `scheme`: "s3" or "gs".
  S3FileSystem(std::string scheme, std::shared_ptr<HttpClient> client,
               std::shared_ptr<S3Endpoint> endpoint)
      : ObjectFileSystem(std::move(client)),
        scheme_(std::move(scheme)),
        endpoint_(std::move(endpoint)) {}

  std::string name() const override { return scheme_; }
  bool is_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& folder) override;
  std::vector<std::string> glob(const std::string& pattern, bool hidden = false) override;
  std::unique_ptr<WritableFile> create(const std::string& path) override;
  void remove(const std::string& path) override;
  /// Returns the place of a path's object, which may not exist yet. Throws Error{invalid_argument |
  /// not_found}.
  ObjectPlace place_of(const std::string& path) const;

 protected:
  Url url_of(const std::string& path) const override;

 private:
  /// Returns the paths of objects whose keys begin with `prefix`, sorted, at most `most` of them
  /// unless that is 0. Pins the objects.
  std::vector<std::string> list_prefix(const S3Path& prefix, std::size_t most);

  const std::string scheme_;
  const std::shared_ptr<S3Endpoint> endpoint_;
};

}  // namespace penstock::http
