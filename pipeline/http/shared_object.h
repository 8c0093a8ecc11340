// A small object that several writers may try to replace.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pipeline/http/object_write.h"

namespace penstock::http {

/// A small object whose writes are conditional. Each write names the version that it replaces
/// (If-Match, If-None-Match). If two writers know the same version, only the first one succeeds.
/// The object is there in full or not at all. Used by one thread.
class SharedObject {
 public:
  explicit SharedObject(ObjectPlace place) : place_(std::move(place)) {}

  /// Returns the contents, which the next `write` replaces, or nothing if there is no object.
  /// Throws Error{unavailable}.
  std::optional<std::string> read(std::size_t most_bytes);
  /// Call it after `read`. Sends writes whose condition is false. Throws Error{invalid_argument}
  /// naming the store if it carries out one of them, and Error{unavailable} if it permits no
  /// writes.
  void check();
  /// Replaces the version that `read` found or that the last `write` wrote. Throws
  /// Error{unavailable} if another writer has written the object since, or if it can't be written.
  void write(std::string_view contents);

 private:
  struct Seen {
    std::string etag;  ///< empty: there is no object
    std::string mark;
  };

  Seen look() const;
  /// Sends a write whose condition is false, and returns the status of the answer.
  int write_in_vain(std::string_view contents, const std::string& condition) const;
  [[noreturn]] void refuse_store() const;

  const ObjectPlace place_;
  std::string etag_;         // of the version to replace; empty: there is no object
  std::string contents_;     // its contents, as `read` found them
  std::string lost_mark_;    // of a write that may have succeeded without an answer
  bool is_checked_ = false;  // true if the store obeys both conditions
};

/// Returns the object at an s3:// or gs:// path. Throws Error{invalid_argument} for other paths.
std::unique_ptr<SharedObject> open_shared_object(const std::string& path);

}  // namespace penstock::http
