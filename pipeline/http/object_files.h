// The common base of file systems of objects on servers: paths that name URLs, and objects that are
// pinned when they are found.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <penstock/file_system.h>
#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/client.h"

namespace penstock::http {

/// A file system of objects. `info` or a listing pins an object to its size and ETag; `open` then
/// sends no request. Thread-safe.
class ObjectFileSystem : public FileSystem {
 public:
  explicit ObjectFileSystem(std::shared_ptr<HttpClient> client) : client_(std::move(client)) {}

  std::shared_ptr<File> open(const std::string& path) override;
  std::optional<FileInfo> read_whole(const std::string& path, const FileInfo& expected,
                                     std::byte* out) override;
  FileInfo info(const std::string& path) override;

 protected:
  HttpClient& client() const noexcept { return *client_; }
  const std::shared_ptr<HttpClient>& client_ptr() const noexcept { return client_; }
  /// Returns the URL of a path's object. Throws Error{invalid_argument}.
  virtual Url url_of(const std::string& path) const = 0;
  /// Pins an object that a listing has found: the next `info` sends no request.
  void pin_listed(PinnedObject object) EXCLUDES(mutex_);
  /// Forgets an object that is being rewritten: the next `open` asks the server again.
  void unpin(const std::string& path) EXCLUDES(mutex_);

 private:
  struct Pin {
    PinnedObject object;
    bool listed = false;
  };

  PinnedObject pinned(const std::string& path) EXCLUDES(mutex_);
  PinnedObject find(const std::string& path) EXCLUDES(mutex_);
  void pin(Pin pin) EXCLUDES(mutex_);

  const std::shared_ptr<HttpClient> client_;
  Mutex mutex_;
  std::map<std::string, Pin> pins_ GUARDED_BY(mutex_);
};

}  // namespace penstock::http
