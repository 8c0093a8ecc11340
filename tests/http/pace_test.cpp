// The rate of requests to a server, in virtual time, and the permits for them.
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "pipeline/http/pace.h"
#include "pipeline/http/patience.h"
#include "pipeline/http/send_rate.h"

namespace penstock::http {
namespace {

/// Takes so many requests in each second of the clock, and refuses the rest of them.
class ByTheSecond {
 public:
  explicit ByTheSecond(double rate) : rate_(rate) {}
  bool takes(double now_s) {
    if (std::floor(now_s) != second_) count_ = 0;
    second_ = std::floor(now_s);
    return ++count_ <= rate_;
  }

 private:
  const double rate_;
  double second_ = -1, count_ = 0;
};

/// A bucket of tokens that fills at that rate.
class ByTokens {
 public:
  ByTokens(double rate, double most) : rate_(rate), most_(most), tokens_(most) {}
  bool takes(double now_s) {
    tokens_ = std::min(most_, tokens_ + rate_ * (now_s - at_));
    at_ = now_s;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  const double rate_, most_;
  double tokens_, at_ = 0;
};

struct Outcome {
  double sent = 0, good = 0;
};

/// Sends for so many seconds, with at most `most` requests in flight, each of which is answered
/// after `answer_s`. Returns the requests of the second half.
Outcome send(SendRate& rate, const std::function<bool(double)>& takes, std::size_t most,
             double answer_s, double seconds) {
  struct Sent {
    double at, answered;
    bool good;
  };
  std::deque<Sent> flying;
  Outcome outcome;
  double now = 0;
  const auto answer = [&] {
    const Sent first = flying.front();
    flying.pop_front();
    now = std::max(now, first.answered);
    if (first.good) {
      rate.good(first.answered);
    } else {
      rate.throttled(first.answered, first.at, {});
    }
  };
  while (now < seconds) {
    while (flying.size() >= most) answer();
    const double at = rate.next(now);
    if (!flying.empty() && flying.front().answered <= at) {
      answer();
      continue;
    }
    EXPECT_EQ(rate.take(now), at);
    now = at;
    const bool good = takes(at);
    flying.push_back({at, at + answer_s, good});
    if (at < seconds / 2) continue;
    outcome.sent += 1;
    outcome.good += good ? 1 : 0;
  }
  return outcome;
}

TEST(SendRate, OfStoresThatThrottle) {
  struct Case {
    const char* what;
    double rate;
    std::size_t most;
    double answer_s;
  };
  const std::vector<Case> table = {
      {"fast answers", 500, 256, 0.001},   {"slow answers", 500, 256, 0.2},
      {"few connections", 500, 16, 0.002}, {"a high limit", 5500, 256, 0.005},
      {"a low limit", 20, 256, 0.001},
  };
  constexpr double kSeconds = 120;
  for (const Case& row : table) {
    for (const bool by_tokens : {false, true}) {
      SendRate rate;
      ByTheSecond seconds(row.rate);
      ByTokens tokens(row.rate, row.rate);
      const Outcome outcome = send(
          rate, [&](double now) { return by_tokens ? tokens.takes(now) : seconds.takes(now); },
          row.most, row.answer_s, kSeconds);
      const double possible = row.rate * kSeconds / 2;
      EXPECT_GE(outcome.good, 0.65 * possible) << row.what << (by_tokens ? ", by tokens" : "");
      // The rate grows by 20 a second at least, and is cut once a second at most.
      EXPECT_LE(outcome.sent, 1.3 * outcome.good + 10 * kSeconds / 2)
          << row.what << (by_tokens ? ", by tokens" : "");
    }
  }
}

TEST(SendRate, WithoutALimitUntilAServerThrottles) {
  SendRate rate;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(rate.take(1), 1);
  EXPECT_FALSE(rate.limit(1));
  rate.throttled(1.5, 1, {});
  ASSERT_TRUE(rate.limit(1.5));
  EXPECT_GT(rate.next(1.5), 1.5);
}

TEST(SendRate, CutOnceForRequestsThatWereSentTogether) {
  SendRate rate;
  for (int i = 0; i < 1000; ++i) rate.take(0);
  for (int i = 0; i < 400; ++i) rate.good(0.1);
  rate.throttled(0.1, 0, {});
  const double cut = rate.limit(0.1).value();
  EXPECT_NEAR(cut, 0.7 * 500, 1);  // half of what was sent, more than the good ones
  for (double now = 0.2; now < 5; now += 0.1) rate.throttled(now, 0, {});
  EXPECT_GT(rate.limit(5).value(), cut);
  rate.throttled(5, 4, {});
  EXPECT_LT(rate.limit(5).value(), rate.limit(8).value());
}

TEST(SendRate, RegainedInThreeSecondsAndForgottenInSixty) {
  SendRate rate;
  for (int i = 0; i < 600; ++i) rate.good(1);
  rate.throttled(1, 1, {});
  EXPECT_NEAR(rate.limit(1).value(), 420, 1);
  EXPECT_NEAR(rate.limit(4).value(), 600, 1);
  EXPECT_GT(rate.limit(8).value(), 900);
  EXPECT_FALSE(rate.limit(62));
  EXPECT_EQ(rate.next(62), 62);
}

TEST(SendRate, WaitsForTheTimeThatTheServerNames) {
  SendRate rate;
  rate.throttled(1, 0, 2);
  EXPECT_DOUBLE_EQ(rate.next(1), 3);
  rate.throttled(1.5, 0, 1);  // an earlier end
  EXPECT_DOUBLE_EQ(rate.next(1.5), 3);
  rate.throttled(2, 0, 1'000'000);
  EXPECT_DOUBLE_EQ(rate.next(2), 32);
  EXPECT_GE(rate.take(2), 32);
}

TEST(SendRate, OfAnOutageThatEnds) {
  SendRate rate;
  for (double now = 0; now < 300; now = rate.take(now)) rate.throttled(now, now, {});
  EXPECT_GE(rate.limit(300).value_or(1e9), 20);
  double now = 300;
  int requests = 0;
  for (; requests < 10'000 && now < 400; ++requests) {
    now = rate.take(now);
    rate.good(now);
  }
  EXPECT_EQ(requests, 10'000);
}

TEST(Tries, CountThrottledOnesOnlyWhereNothingSucceeds) {
  Tries tries;
  for (std::uint64_t goods = 1; goods <= 100; ++goods) tries.fail(Verdict::throttled, goods);
  EXPECT_EQ(tries.failed, 0);
  tries.fail(Verdict::throttled, 100);
  EXPECT_EQ(tries.failed, 1);
  tries.fail(Verdict::again, 101);
  EXPECT_EQ(tries.failed, 2);
}

TEST(Pace, PermitsUntilADeadline) {
  Pace pace(2);
  Pace::Server& server = pace.server("http://a");
  const auto soon = [] { return Pace::Clock::now() + std::chrono::milliseconds(20); };
  EXPECT_TRUE(pace.acquire(server, soon()));
  EXPECT_TRUE(pace.acquire(pace.server("http://b"), soon()));
  EXPECT_FALSE(pace.acquire(server, soon()));
  pace.release();
  EXPECT_TRUE(pace.acquire(server, soon()));
}

TEST(Pace, RatesOfEachServer) {
  Pace pace(2);
  Pace::Server& slow = pace.server("http://slow");
  EXPECT_EQ(&slow, &pace.server("http://slow"));
  const auto now = Pace::Clock::now();
  pace.throttled(slow, now, 20);
  EXPECT_FALSE(pace.acquire(slow, now + std::chrono::milliseconds(20)));
  EXPECT_TRUE(pace.acquire(pace.server("http://fast"), now + std::chrono::hours(1)));
  const RemoteStats stats = pace.stats();
  EXPECT_EQ(stats.throttled, 1);
  EXPECT_NEAR(stats.requests_per_second, 20, 1);
  EXPECT_FALSE(pace.hedge(slow));
}

}  // namespace
}  // namespace penstock::http
