// Single requests that write an object or ask for its state.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/remote_files.h>

#include "pipeline/http/client.h"

namespace penstock::http {

/// The place of an object that exists or is to be written.
struct ObjectPlace {
  std::shared_ptr<HttpClient> client;
  std::string path;          ///< as shown to users
  std::function<Url()> url;  ///< by the current knowledge of the bucket's region
};

struct ObjectRequest {
  std::string method = "PUT";
  std::string query{};
  std::vector<std::string> headers{};
  std::string_view content{};  ///< REQUIRES: lives as long as the ObjectWrite
  /// An answer without an ETag is not accepted.
  bool wants_etag = false;
  /// Beginning of the name of an XML element that the answer must have; a beginning, since services
  /// use several names for it. Empty: no check. AWS reports errors with status 200 here.
  std::string_view element{};
  /// Further statuses that are accepted as answers, without a retry.
  std::vector<int> also{};
  /// The service may send nothing until its answer is ready.
  bool may_be_silent = false;
  /// Replaces RemoteOptions::deadline.
  std::optional<std::chrono::milliseconds> deadline{};
};

/// One request, retried as reads are until its answer is good. It must have the same effect if it
/// is carried out twice. Used by one thread.
class ObjectWrite {
 public:
  ObjectWrite(const ObjectPlace& place, ObjectRequest request);
  /// Cancels the request.
  ~ObjectWrite();
  ObjectWrite(const ObjectWrite&) = delete;
  ObjectWrite& operator=(const ObjectWrite&) = delete;

  /// Sends the request. Throws Error{unavailable}.
  void begin();
  bool arrived() const noexcept;
  /// Waits for the answer and returns its body. Throws Error{unavailable | not_found |
  /// invalid_argument} with the service's message.
  std::string finish();
  std::string perform() {
    begin();
    return finish();
  }
  /// Returns the head of the last answer.
  const AnswerHead& head() const noexcept;

 private:
  class Taker;

  const ObjectPlace place_;
  const ObjectRequest request_;
  const std::string md5_;  // of the body that is sent, in base64; empty: none
  const RemoteOptions options_;
  const std::unique_ptr<Taker> taker_;
  Asking asking_;
};

/// Returns a new unique mark for a write: 128 bits.
std::string new_write_mark();
/// Returns the header "x-amz-meta-penstock-write: MARK".
std::string write_mark_header(const std::string& mark);

}  // namespace penstock::http
