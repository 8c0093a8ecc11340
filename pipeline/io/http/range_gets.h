// Sends requests for ranges of objects until their answers are good.
#pragma once

#include <functional>
#include <span>

#include "pipeline/io/http/client.h"

namespace penstock::http {

/// The objects that making and sending a request needs.
struct RangeAsker {
  HttpTransport& transport;
  Pace& pace;
  const RemoteOptions& options;
  Authorizer* authorizer = nullptr;
  std::function<HttpRequest(const Url& url, std::chrono::milliseconds timeout)> request;
};

/// Returns the header of a range, such as "Range: bytes=0-99".
std::string range_header(std::uint64_t first, std::uint64_t last);

/// See HttpClient::get. If an answer takes much longer than similar ones, its request is sent once
/// more, over another connection (Pace::hedge). The first good answer counts, and the other request
/// is cancelled.
void get_ranges(const RangeAsker& asker, std::span<RangeGet> gets, bool fresh);

}  // namespace penstock::http
