#include "pipeline/io/http/range_gets.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "pipeline/io/http/attempt.h"
#include "pipeline/io/http/patience.h"
#include "pipeline/io/http/takers.h"

namespace penstock::http {
namespace {

using GetClock = std::chrono::steady_clock;

constexpr std::chrono::hours kLongestLook(1);

/// Requests the same range as a late request, into its own memory, since both may write.
class Hedge {
 public:
  Hedge(const RangeGet& late, Pace& pace, Countdown& countdown)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(late.end() - late.first())),
        get_{late.object, {{late.first(), late.end() - late.first(), memory_.get()}}, {}},
        taker_(get_),
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
      : asker_(asker), fresh_(fresh), patience_(asker.options, bytes_of(gets)) {
    for (RangeGet& get : gets) pending_.emplace_back(get, asker.pace, countdown_);
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
      Verdict worst = Verdict::refused;
      int tries = 1;
      for (One& one : pending_) {
        if (!one.open) continue;
        const Verdict verdict = take(one);
        if (patience_.again(verdict, one.tries)) {
          if (verdict != Verdict::refused) worst = verdict;
          tries = std::max(tries, one.tries);
          continue;
        }
        one.open = false;
        --left;
        if (verdict != Verdict::good) one.get.status = error(one);
      }
      if (left > 0) patience_.wait(worst, tries);
    }
  }

 private:
  struct One {
    One(RangeGet& what, Pace& pace, Countdown& countdown)
        : get(what), taker(what), attempt(taker, pace, countdown) {}
    std::uint64_t bytes() const noexcept { return get.end() - get.first(); }

    RangeGet& get;
    PartsTaker taker;
    Attempt attempt;
    std::unique_ptr<Hedge> hedge;
    GetClock::time_point late_at = GetClock::time_point::max();
    int tries = 0;
    bool open = true;
    bool settled = false;  // one of the two requests was cancelled
  };

  static std::uint64_t bytes_of(std::span<const RangeGet> gets) noexcept {
    std::uint64_t bytes = 0;
    for (const RangeGet& get : gets) bytes += get.end() - get.first();
    return bytes;
  }

  HttpRequest request_of(const RangeGet& get) const {
    HttpRequest request = asker_.request(get.object->url, patience_.left());
    request.headers.push_back(range_header(get.first(), get.end() - 1));
    if (!get.object->etag.empty()) request.headers.push_back("If-Match: " + get.object->etag);
    if (fresh_) request.headers.emplace_back("Cache-Control: no-cache");
    return request;
  }

  Status start_all() {
    for (One& one : pending_) {
      if (!one.open) continue;
      one.late_at = GetClock::time_point::max();
      try {
        one.attempt.start(asker_.transport, request_of(one.get), one.tries > 0,
                          patience_.deadline());
        ++one.tries;
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
    if (!asker_.options.hedge || !asker_.pace.hedge()) return false;
    try {
      auto other = std::make_unique<Hedge>(one.get, asker_.pace, countdown_);
      const HttpRequest request = request_of(one.get);
      one.hedge = std::move(other);
      one.settled = false;
      one.hedge->attempt().send(asker_.transport, request);
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
    if (verdict != Verdict::good && asker_.authorizer != nullptr &&
        one.attempt.credentials_refused())
      asker_.authorizer->refused(one.attempt.sent());
    return verdict;
  }

  static Error error(const One& one) {
    const PinnedObject& object = *one.get.object;
    const Error error =
        error_of(one.attempt.result(), one.attempt.head(), object.path, object.url, one.tries);
    return Error(error.code(), error.cause(),
                 {.shard = object.path, .offset = static_cast<std::int64_t>(one.get.first())});
  }

  const RangeAsker& asker_;
  const bool fresh_;
  const Patience patience_;
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
