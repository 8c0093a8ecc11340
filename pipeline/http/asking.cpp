#include "pipeline/http/asking.h"

#include <algorithm>

#include "pipeline/http/client.h"

namespace penstock::http {
namespace {

constexpr int kMostMoves = 5;  // from region to region

}  // namespace

Asking::Asking(const Asker& asker, std::string path, BodyTaker& taker, std::uint64_t bytes,
               Make make)
    : asker_(asker),
      path_(std::move(path)),
      bytes_(bytes),
      is_write_(taker.is_write()),
      make_(std::move(make)),
      route_(asker.redirects, path_, asker.authorizer != nullptr),
      attempt_(taker, asker.pace, countdown_) {}

Asking::~Asking() {
  if (!attempt_.arrived()) asker_.transport.cancel(attempt_.number());
  countdown_.wait();
}

void Asking::send(const Patience& patience, bool again) {
  HttpRequest request = make_(route_.target().url, patience.left(bytes_));
  request.stall = std::min(request.stall, patience.left(0));
  request.public_only = route_.target().public_only;
  attempt_.start(asker_.transport, request, again, patience.deadline());
}

void Asking::begin(const Url& url) {
  route_.begin(url);
  send(Patience(asker_.options), false);
}

Url Asking::finish() {
  return settle(Patience(asker_.options));
}

Url Asking::perform(const Url& url) {
  route_.begin(url);
  const Patience patience(asker_.options);
  send(patience, false);
  return settle(patience);
}

Url Asking::settle(const Patience& patience) {
  Tries tries{.sent = 1};
  for (int moves = 0;; ++tries.sent) {
    countdown_.wait();
    const Judgement& result = attempt_.result();
    const Url& url = route_.target().url;
    if (result.verdict == Verdict::good || result.verdict == Verdict::empty) {
      route_.succeeded();
      return url;
    }
    if (std::optional<Url> there = moved(url); there && moves < kMostMoves) {
      ++moves;
      route_.move(*std::move(there));
    } else if (result.verdict == Verdict::redirect) {
      route_.follow(head().location, attempt_.private_peer());
    } else if (!route_.failed(head().status)) {
      if (asker_.authorizer != nullptr && attempt_.credentials_refused())
        asker_.authorizer->refused(attempt_.sent());
      tries.fail(result.verdict, attempt_.goods());
      if (!patience.again(result.verdict, tries.failed))
        throw error_of(result, head(), path_, url, tries.sent, is_write_);
      patience.wait(result.verdict, tries.failed);
    }
    send(patience, tries.failed > 0);
  }
}

std::optional<Url> Asking::moved(const Url& url) const {
  if (asker_.authorizer == nullptr || head().bucket_region.empty()) return {};
  return asker_.authorizer->moved(url, head().bucket_region);
}

}  // namespace penstock::http
