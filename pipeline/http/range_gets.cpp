#include "pipeline/http/range_gets.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "pipeline/http/attempt.h"
#include "pipeline/http/patience.h"
#include "pipeline/http/takers.h"

namespace penstock::http {
namespace {

using GetClock = std::chrono::steady_clock;

constexpr std::chrono::hours kLongestLook(1);

/// Requests the same range as a late request, into its own memory, since both may write.
class Hedge {
 public:
  Hedge(const RangeGet& late, bool by_date, Pace& pace, Countdown& countdown)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(late.end() - late.first())),
        get_{late.object, {{late.first(), late.end() - late.first(), memory_.get()}}, {}},
        taker_(get_, by_date),
        attempt_(taker_, pace, countdown) {}

  Attempt& attempt() noexcept { return attempt_; }
  void copy_to(const RangeGet& late) const noexcept {
    for (const RangePart& part : late.parts)
      std::memcpy(part.out, memory_.get() + (part.offset - get_.first()), part.size);
  }

 private:
  const std::unique_ptr<std::byte[]> memory_;
  const RangeGet get_;
  PartsTaker taker_;
  Attempt attempt_;
};

class RangeRound {
 public:
  RangeRound(const RangeAsker& asker, std::span<RangeGet> gets, bool fresh)
      : make_(asker), asker_(asker.asker), fresh_(fresh), patience_(asker_.options) {
    for (RangeGet& get : gets) {
      if (get.object->rangeless && get.end() - get.first() != get.object->info.size) {
        get.status = rangeless(get);
        continue;
      }
      One& one = pending_.emplace_back(get, asker_, countdown_);
      one.route.begin(get.object->url);
      one.matches = !get.object->etag.empty() && !asker_.options.trust_dates &&
                    make_.matches(get.object->url);
    }
  }

  void run() {
    for (std::size_t left = pending_.size(); left > 0;) {
      const Status broken = start_all();
      wait_for_all();  // so that nothing writes to these places any more
      if (!broken.ok()) {
        for (One& one : pending_)
          if (one.open) one.get.status = broken;
        return;
      }
      std::optional<Verdict> worst;  // of those that wait before they are sent again
      int failed = 1;
      for (One& one : pending_) {
        if (!one.open) continue;
        const Verdict verdict = take(one);
        if (verdict != Verdict::good && goes_elsewhere(one, verdict)) continue;
        if (verdict == Verdict::good) patience_.restart();
        if (one.open && GetClock::now() < one.until && patience_.again(verdict, one.tries.failed)) {
          if (!worst || verdict != Verdict::refused) worst = verdict;
          failed = std::max(failed, one.tries.failed);
          continue;
        }
        if (one.open && verdict != Verdict::good) one.get.status = error(one);
        one.open = false;
        --left;
      }
      if (left > 0 && worst) patience_.wait(*worst, failed);
    }
  }

 private:
  struct One {
    One(RangeGet& what, const Asker& asker, Countdown& countdown)
        : get(what),
          taker(what, asker.options.trust_dates),
          attempt(taker, asker.pace, countdown),
          route(asker.redirects, what.object->path, asker.authorizer != nullptr) {}
    std::uint64_t bytes() const noexcept { return get.end() - get.first(); }

    RangeGet& get;
    PartsTaker taker;
    Attempt attempt;
    Route route;
    std::unique_ptr<Hedge> hedge;
    GetClock::time_point late_at = GetClock::time_point::max();
    GetClock::time_point until = GetClock::time_point::max();
    Tries tries;
    bool open = true;
    bool settled = false;    // one of the two requests was cancelled
    bool matches = false;    // sent with If-Match
    bool unmatched = false;  // which was refused
    bool gone = true;        // every answer so far was 404 or 410
  };

  static Error rangeless(const RangeGet& get) {
    return Error(ErrorCode::invalid_argument,
                 "the server does not support ranges, so only files that are read whole, such as "
                 "images, can be read from it: copy this one here, or use a server with ranges",
                 {.shard = get.object->path});
  }

  HttpRequest request_of(const One& one) const {
    const RangeGet& get = one.get;
    HttpRequest request = make_.request(one.route.target().url, patience_.left(one.bytes()));
    request.stall = std::min(request.stall, patience_.left(0));
    request.public_only = one.route.target().public_only;
    request.headers.push_back(range_header(get.first(), get.end() - 1));
    if (one.matches) request.headers.push_back("If-Match: " + get.object->etag);
    if (fresh_) request.headers.emplace_back("Cache-Control: no-cache");
    return request;
  }

  Status start_all() {
    for (One& one : pending_) {
      if (!one.open) continue;
      one.late_at = GetClock::time_point::max();
      try {
        one.attempt.start(asker_.transport, request_of(one), one.tries.sent > 0,
                          patience_.deadline());
        if (one.tries.sent++ == 0)
          one.until = GetClock::now() + asker_.options.deadline + time_of(one.bytes());
        one.late_at = asker_.pace.late_at(one.bytes());
      } catch (...) {
        return status_from_current_exception();
      }
    }
    return {};
  }

  void wait_for_all() {
    bool hedged = false;
    while (true) {
      const std::uint64_t arrivals = countdown_.arrivals();
      GetClock::time_point next = GetClock::now() + kLongestLook;
      for (One& one : pending_) {
        if (!one.open) continue;
        if (one.hedge != nullptr) {
          settle(one);
        } else if (!one.attempt.arrived() && GetClock::now() >= one.late_at) {
          one.late_at = GetClock::time_point::max();
          hedged = hedge(one) || hedged;
        } else if (!one.attempt.arrived()) {
          next = std::min(next, one.late_at);
        }
      }
      // If a range was requested twice, the first arrival has to be examined.
      if (countdown_.wait(next, hedged ? arrivals : Countdown::kAll)) return;
    }
  }

  /// Sends the request once more, if that is permitted.
  bool hedge(One& one) noexcept {
    if (!asker_.options.hedge || !asker_.pace.hedge(one.attempt.server())) return false;
    try {
      auto other =
          std::make_unique<Hedge>(one.get, asker_.options.trust_dates, asker_.pace, countdown_);
      const HttpRequest request = request_of(one);
      one.hedge = std::move(other);
      one.settled = false;
      one.hedge->attempt().send(asker_.transport, request, one.attempt.server());
      return true;
    } catch (...) {  // no memory, or no credentials: the first request continues
      if (one.hedge != nullptr) return true;
      asker_.pace.release();
      asker_.pace.hedge_ended();
      return false;
    }
  }

  void settle(One& one) noexcept {
    if (one.settled) return;
    const auto is_good = [](const Attempt& attempt) {
      return attempt.arrived() && attempt.result().verdict == Verdict::good;
    };
    Attempt& other = one.hedge->attempt();
    if (is_good(one.attempt)) {
      asker_.transport.cancel(other.number());
    } else if (is_good(other)) {
      asker_.transport.cancel(one.attempt.number());
    } else {
      return;
    }
    one.settled = true;
  }

  /// Stores the final result.
  Verdict take(One& one) {
    Verdict verdict = one.attempt.result().verdict;
    if (one.hedge != nullptr) {
      const bool won =
          verdict != Verdict::good && one.hedge->attempt().result().verdict == Verdict::good;
      if (won) {
        one.hedge->copy_to(one.get);
        verdict = Verdict::good;
      }
      one.hedge = nullptr;
      asker_.pace.hedge_ended();
    }
    if (verdict == Verdict::good) {
      one.route.succeeded();
      if (one.unmatched) make_.refuses_its_etags(one.get.object->url);
      return verdict;
    }
    if (asker_.authorizer != nullptr && one.attempt.credentials_refused())
      asker_.authorizer->refused(one.attempt.sent());
    return verdict;
  }

  /// Returns true if a request is sent again at once, in another way. If it can't be, it has
  /// failed.
  bool goes_elsewhere(One& one, Verdict verdict) {
    const AnswerHead& head = one.attempt.head();
    try {
      if (verdict == Verdict::redirect) {
        one.route.follow(head.location, one.attempt.private_peer());
        return true;
      }
    } catch (...) {
      one.get.status = status_from_current_exception();
      one.open = false;
      return false;
    }
    if (one.route.failed(head.status)) return true;
    one.gone = one.gone && (head.status == 404 || head.status == 410);
    // Some servers refuse the ETag that they have just given. The answer's own is compared, too.
    if (head.status == 412 && one.matches) {
      one.matches = false;
      one.unmatched = true;
      return true;
    }
    one.tries.fail(verdict, one.attempt.goods());
    return false;
  }

  static Error error(const One& one) {
    const PinnedObject& object = *one.get.object;
    const Error error = error_of(one.attempt.result(), one.attempt.head(), object.path,
                                 one.route.target().url, one.tries.sent);
    const Provenance where{.shard = object.path,
                           .offset = static_cast<std::int64_t>(one.get.first())};
    if (error.code() != ErrorCode::not_found) return Error(error.code(), error.cause(), where);
    // It was there when it was found. A server that says something else in between is not sure.
    if (!one.gone) return Error(ErrorCode::unavailable, error.cause(), where);
    return Error(ErrorCode::changed, "the object was removed since it was found: " + error.cause(),
                 where);
  }

  const RangeAsker& make_;
  const Asker asker_;
  const bool fresh_;
  Patience patience_;
  Countdown countdown_;
  std::deque<One> pending_;
};

}  // namespace

std::string range_header(std::uint64_t first, std::uint64_t last) {
  return "Range: bytes=" + std::to_string(first) + '-' + std::to_string(last);
}

void get_ranges(const RangeAsker& asker, std::span<RangeGet> gets, bool fresh) {
  RangeRound(asker, gets, fresh).run();
}

}  // namespace penstock::http
