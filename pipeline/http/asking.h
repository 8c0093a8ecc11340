// One request to a server, repeated until its answer is good.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "pipeline/http/attempt.h"
#include "pipeline/http/patience.h"
#include "pipeline/http/redirects.h"

namespace penstock::http {

class Authorizer;

/// The objects that sending a request needs. REQUIRES: all of them outlive every request.
struct Asker {
  HttpTransport& transport;
  Pace& pace;
  const RemoteOptions& options;
  Redirects& redirects;
  Authorizer* authorizer = nullptr;
};

/// One request with its retries. Follows redirects (Route), and those to a bucket's region.
/// Used by one thread.
class Asking {
 public:
  /// Makes the request to a URL, with its authorization.
  using Make = std::function<HttpRequest(const Url& url, std::chrono::milliseconds timeout)>;

  /// `path` is shown in errors. `bytes`: size of the answer or of the body that is sent, which may
  /// take longer for it.
  Asking(const Asker& asker, std::string path, BodyTaker& taker, std::uint64_t bytes, Make make);
  /// Cancels the request.
  ~Asking();
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  /// Sends the request. Throws the errors of `make`.
  void begin(const Url& url);
  /// Returns true once the first answer has arrived, good or not: `finish` may still retry.
  bool arrived() const noexcept { return attempt_.arrived(); }
  /// Waits for a good answer, and retries if needed. Its deadline begins with this call, since the
  /// caller may come back long after `begin`. Returns the URL that answered. Throws the error of
  /// the last answer if none was good.
  Url finish();
  /// Does `begin` and `finish`, within one deadline.
  Url perform(const Url& url);

  const AnswerHead& head() const noexcept { return attempt_.head(); }

 private:
  void send(const Patience& patience, bool again);
  Url settle(const Patience& patience);
  std::optional<Url> moved(const Url& url) const;

  const Asker asker_;
  const std::string path_;
  const std::uint64_t bytes_;
  const bool is_write_;
  const Make make_;
  Route route_;
  Countdown countdown_;
  Attempt attempt_;
};

}  // namespace penstock::http
