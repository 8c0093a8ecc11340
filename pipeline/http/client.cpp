#include "pipeline/http/client.h"

#include <algorithm>

#include <penstock/log.h>
#include <penstock/version.h>

#include "pipeline/http/asking.h"
#include "pipeline/http/basic_auth.h"
#include "pipeline/http/range_gets.h"
#include "pipeline/http/takers.h"

namespace penstock::http {
namespace {

using ClientClock = std::chrono::steady_clock;

std::uint64_t size_of(const AnswerHead& head) noexcept {
  if (head.status == 416) return 0;
  return head.range ? head.range->size : *head.content_length;
}

}  // namespace

HttpClient::HttpClient(RemoteOptions options, std::unique_ptr<HttpTransport> transport,
                       std::shared_ptr<Authorizer> authorizer, std::shared_ptr<BlockCache> cache)
    : options_(std::move(options)),
      pace_(std::max<std::size_t>(1, options_.connections)),
      transport_(std::move(transport)),
      authorizer_(std::move(authorizer)),
      cache_(std::move(cache)) {}

BlockCache* HttpClient::cache_of(const PinnedObject& object) const {
  return object.info.inode != 0 && !object.rangeless ? cache_.get() : nullptr;
}

Asker HttpClient::asker() {
  return {transport(), pace_, options_, redirects_, authorizer_.get()};
}

HttpRequest HttpClient::request_for(const Url& url, std::chrono::milliseconds timeout,
                                    HttpRequest request) {
  request.url = url.whole();
  request.timeout = timeout;
  request.stall = options_.stall;
  request.headers.emplace_back("Accept-Encoding: identity");
  if (authorizer_ != nullptr) {
    authorizer_->authorize(request, url);
  } else if (!url.userinfo.empty()) {
    request.headers.push_back("Authorization: Basic " + basic_credentials(url.userinfo));
  }
  return request;
}

HttpTransport& HttpClient::transport() {
  std::call_once(opened_, [this] {
    if (transport_ != nullptr) return;
    if (options_.insecure)
      log(LogLevel::warning,
          "server certificates are not checked: anyone on the network path can replace the data");
    transport_ = remote_module().open({.connections = options_.connections,
                                       .ca_file = options_.ca_file,
                                       .insecure = options_.insecure,
                                       .user_agent = "penstock/" + version()});
  });
  return *transport_;
}

PinnedObject HttpClient::find(const std::string& path, const Url& url) {
  ProbeTaker taker(
      [&] {
        const MutexLock lock(mutex_);
        return rangeless_.contains(url.origin());
      }(),
      is_gz_name(path));
  Asking asking(asker(), path, taker, 0, [this](const Url& at, std::chrono::milliseconds timeout) {
    HttpRequest request = request_for(at, timeout);
    request.headers.push_back(range_header(0, 0));
    return request;
  });
  const Url answered = asking.perform(url);
  PinnedObject object{path, authorizer_ != nullptr ? answered : url, {}, {}};
  object.rangeless = taker.is_rangeless();
  if (taker.is_rangeless()) {
    const MutexLock lock(mutex_);
    rangeless_.insert(url.origin());
  }
  const AnswerHead& head = asking.head();
  object.info.size = taker.counted() ? *taker.counted() : size_of(head);
  object.info.inode = head.version(options_.trust_dates);
  object.info.mtime_ns = static_cast<std::int64_t>(object.info.inode);
  object.etag = head.strong_etag();
  object.modified = head.last_modified;
  if (object.info.inode == 0 && object.info.size > 0)
    log_once(LogLevel::warning, "no ETag from " + url.origin(),
             url.origin() +
                 " gives no versions of its files (ETag, Last-Modified): the replacement of a file "
                 "by another of the same size goes unnoticed");
  return object;
}

std::string HttpClient::get_whole(const std::string& path, const Url& url, std::size_t most_bytes) {
  TextTaker taker(most_bytes);
  Asking(asker(), path, taker, 0, [this](const Url& at, std::chrono::milliseconds timeout) {
    return request_for(at, timeout);
  }).perform(url);
  return std::move(taker.text());
}

std::string HttpClient::ask(const HttpRequest& request, std::size_t most_bytes) {
  TextTaker taker(most_bytes);
  Countdown countdown;
  Attempt attempt(taker, pace_, countdown);
  attempt.start(transport(), request, false, ClientClock::now() + request.timeout);
  countdown.wait();
  if (attempt.result().verdict != Verdict::good)
    throw Error(ErrorCode::unavailable, attempt.result().why);
  return std::move(taker.text());
}

void HttpClient::get(std::span<RangeGet> gets, bool fresh) {
  const RangeAsker asker{
      .asker = this->asker(),
      .request = [this](const Url& url,
                        std::chrono::milliseconds timeout) { return request_for(url, timeout); },
      .matches =
          [this](const Url& url) {
            const MutexLock lock(mutex_);
            return unmatched_.empty() || !unmatched_.contains(url.origin());
          },
      .refuses_its_etags =
          [this](const Url& url) {
            log_once(LogLevel::warning, "If-Match at " + url.origin(),
                     url.origin() +
                         " rejects its own ETags (HTTP 412 to If-Match): the ETag of each answer "
                         "is compared instead");
            const MutexLock lock(mutex_);
            unmatched_.insert(url.origin());
          }};
  get_ranges(asker, gets, fresh);
}

}  // namespace penstock::http
