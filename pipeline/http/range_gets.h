// Sends requests for ranges of objects until their answers are good.
#pragma once

#include <functional>
#include <span>

#include "pipeline/http/client.h"

namespace penstock::http {

/// The objects that making and sending a request needs.
struct RangeAsker {
  Asker asker;
  std::function<HttpRequest(const Url& url, std::chrono::milliseconds timeout)> request;
  /// Returns true unless If-Match means nothing to the server of that URL.
  std::function<bool(const Url& url)> matches;
  /// Takes note that the server refused (412) the ETag of an object that is as it was.
  std::function<void(const Url& url)> refuses_its_etags;
};

/// Returns the header of a range, such as "Range: bytes=0-99".
std::string range_header(std::uint64_t first, std::uint64_t last);

/// See HttpClient::get. If an answer takes much longer than similar ones, its request is sent once
/// more, over another connection (Pace::hedge). The first good answer counts, and the other request
/// is cancelled.
void get_ranges(const RangeAsker& asker, std::span<RangeGet> gets, bool fresh);

}  // namespace penstock::http
