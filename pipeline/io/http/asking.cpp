#include "pipeline/io/http/asking.h"

#include "pipeline/io/http/client.h"

namespace penstock::http {
namespace {

constexpr int kMostRedirects = 5;

}  // namespace

Asking::Asking(const Asker& asker, std::string path, BodyTaker& taker, std::uint64_t bytes,
               Make make)
    : asker_(asker),
      path_(std::move(path)),
      bytes_(bytes),
      is_write_(taker.is_write()),
      make_(std::move(make)),
      attempt_(taker, asker.pace, countdown_) {}

Asking::~Asking() {
  if (!attempt_.arrived()) asker_.transport.cancel(attempt_.number());
  countdown_.wait();
}

void Asking::send(const Patience& patience, bool again) {
  attempt_.start(asker_.transport, make_(url_, patience.left()), again, patience.deadline());
}

void Asking::begin(const Url& url) {
  url_ = url;
  send(Patience(asker_.options, bytes_), false);
}

Url Asking::finish() {
  return settle(Patience(asker_.options, bytes_));
}

Url Asking::perform(const Url& url) {
  url_ = url;
  const Patience patience(asker_.options, bytes_);
  send(patience, false);
  return settle(patience);
}

Url Asking::settle(const Patience& patience) {
  int redirects = 0;
  for (int tries = 1;;) {
    countdown_.wait();
    const Judgement& result = attempt_.result();
    if (result.verdict == Verdict::good || result.verdict == Verdict::empty) return url_;
    if (std::optional<Url> there = moved(url_); there && redirects < kMostRedirects) {
      ++redirects;
      url_ = *std::move(there);
    } else if (result.verdict == Verdict::redirect) {
      if (++redirects > kMostRedirects)
        throw Error(ErrorCode::invalid_argument, "the server redirects in circles",
                    {.shard = path_});
      url_ = redirected(url_);
    } else {
      if (asker_.authorizer != nullptr && attempt_.credentials_refused())
        asker_.authorizer->refused(attempt_.sent());
      if (!patience.again(result.verdict, tries))
        throw error_of(result, head(), path_, url_, tries, is_write_);
      patience.wait(result.verdict, tries++);
    }
    send(patience, tries > 1);
  }
}

std::optional<Url> Asking::moved(const Url& url) const {
  if (asker_.authorizer == nullptr || head().bucket_region.empty()) return {};
  return asker_.authorizer->moved(url, head().bucket_region);
}

Url Asking::redirected(const Url& url) const {
  Url next = resolve(url, head().location);
  if (!next.same_origin(url))
    throw Error(ErrorCode::invalid_argument,
                "the server redirects to another, " + next.origin() + ", which is refused",
                {.shard = path_});
  next.userinfo = url.userinfo;
  return next;
}

}  // namespace penstock::http
