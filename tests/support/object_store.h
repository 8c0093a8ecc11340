// Objects in memory that are written by S3's protocol: at once, in parts, and on conditions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <penstock/internal/thread_annotations.h>

namespace penstock::test {

struct StoredObject {
  std::string contents;
  std::string etag;
  std::string mark;  ///< x-amz-meta-penstock-write
};

struct StoreRequest {
  std::string method;  ///< PUT, POST or DELETE
  std::string path, query, body;
  std::string if_match, if_none_match, mark;
};

struct StoreReply {
  std::string status = "200 OK";
  std::string headers{};  ///< each with its line end
  std::string body{};
};

/// A store of objects, as S3 is one. Thread-safe.
class ObjectStore {
 public:
  using Objects = std::map<std::string, std::shared_ptr<const StoredObject>>;

  /// `conditions` false: If-Match and If-None-Match are ignored, as older stores do.
  explicit ObjectStore(bool conditions = true) : conditions_(conditions) {}

  std::shared_ptr<const StoredObject> find(const std::string& path) const EXCLUDES(mutex_);
  void put(const std::string& path, std::string contents, std::string mark = {}) EXCLUDES(mutex_);
  /// Returns the objects that clients can see.
  Objects objects() const EXCLUDES(mutex_);
  /// Returns the number of multipart uploads that were neither completed nor aborted.
  std::size_t open_uploads() const EXCLUDES(mutex_);
  StoreReply write(const StoreRequest& request) EXCLUDES(mutex_);

 private:
  struct Upload {
    std::string path, mark;
    std::map<int, std::string> parts;
  };

  StoreReply put_object(const StoreRequest& request) REQUIRES(mutex_);
  StoreReply begin_upload(const StoreRequest& request) REQUIRES(mutex_);
  StoreReply of_upload(const StoreRequest& request) REQUIRES(mutex_);
  StoreReply complete(const StoreRequest& request, const Upload& upload) REQUIRES(mutex_);
  const std::string& keep(const std::string& path, std::string contents, std::string mark)
      REQUIRES(mutex_);

  const bool conditions_;
  mutable Mutex mutex_;
  Objects objects_ GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ GUARDED_BY(mutex_);
  std::uint64_t last_upload_ GUARDED_BY(mutex_) = 0;
};

/// Returns the ETag that the store gives to these contents.
std::string etag_of(std::string_view contents);

}  // namespace penstock::test
