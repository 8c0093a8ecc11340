// One request and its answer, as the client follows it.
#pragma once

#include <atomic>
#include <chrono>
#include <span>
#include <string>

#include <penstock/internal/thread_annotations.h>

#include "pipeline/http/answer.h"
#include "pipeline/http/pace.h"
#include "pipeline/http/transport.h"

namespace penstock::http {

/// Counts the answers that a thread waits for. Thread-safe.
class Countdown {
 public:
  void add() EXCLUDES(mutex_);
  void arrived() noexcept EXCLUDES(mutex_);
  void wait() EXCLUDES(mutex_);
  static constexpr std::uint64_t kAll = std::uint64_t(-1);
  /// Returns the number of answers that have arrived.
  std::uint64_t arrivals() EXCLUDES(mutex_);
  /// Waits until all have arrived, and returns true. Returns false at `until`, or as soon as more
  /// than `known` have arrived.
  bool wait(std::chrono::steady_clock::time_point until, std::uint64_t known) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::size_t left_ GUARDED_BY(mutex_) = 0;
  std::uint64_t arrivals_ GUARDED_BY(mutex_) = 0;
};

/// The destination of a good answer's body. Called by one thread.
class BodyTaker {
 public:
  virtual ~BodyTaker() = default;
  virtual Judgement judge(const AnswerHead& head) const = 0;
  /// Takes a part of the body. Returns false if there are more bytes than requested.
  virtual bool take(std::span<const std::byte> bytes) noexcept = 0;
  /// Returns true once all bytes have arrived.
  virtual bool full() const noexcept = 0;
  /// Judges a body that `take` refused.
  virtual Judgement too_long() const {
    return {Verdict::again, "the body is longer than what was asked for"};
  }
  virtual void restart() noexcept = 0;
  /// Judges the body by its contents, once all of it has arrived and `full` is true.
  virtual Judgement judge_body() const { return {Verdict::good, {}}; }
  /// Returns true for a write. The latency of writes is not counted with that of reads.
  virtual bool is_write() const noexcept { return false; }
  /// Returns the size of the body that was sent.
  virtual std::uint64_t bytes_written() const noexcept { return 0; }
};

/// A request in flight. `result` is valid once the answer has arrived.
class Attempt final : public HttpSink {
 public:
  Attempt(BodyTaker& taker, Pace& pace, Countdown& countdown)
      : taker_(taker), pace_(pace), countdown_(countdown) {}

  /// Waits for a permit and sends the request. A failure to send counts as an answer.
  void start(HttpTransport& transport, const HttpRequest& request, bool again,
             std::chrono::steady_clock::time_point deadline);

  /// Does the same without waiting. REQUIRES: Pace has given a permit for a request to `server`.
  void send(HttpTransport& transport, const HttpRequest& request, Pace::Server& server);
  /// Returns the server of its last request. REQUIRES: there was one.
  Pace::Server& server() const noexcept { return *server_; }

  /// Returns true once the answer has ended. This may be so shortly before the countdown is told.
  bool arrived() const noexcept { return arrived_.load(std::memory_order_acquire); }
  /// Returns the number by which the transport cancels it.
  std::uint64_t number() const noexcept { return number_; }
  const Judgement& result() const noexcept { return result_; }
  const AnswerHead& head() const noexcept { return reader_.head(); }
  /// Returns true if the server refused the request's credentials.
  bool credentials_refused() const noexcept { return credentials_refused_; }
  /// Returns true if the answer came from a loopback, link-local or private address.
  bool private_peer() const noexcept { return private_peer_; }
  /// Returns the number of good answers of its server so far.
  std::uint64_t goods() const noexcept { return server_ == nullptr ? 0 : pace_.goods(*server_); }
  /// Returns when the request was sent.
  std::chrono::steady_clock::time_point sent() const noexcept { return sent_; }

  bool head_line(std::string_view line) noexcept override;
  bool body(std::span<const std::byte> bytes) noexcept override;
  void done(const HttpEnd& end) noexcept override;

 private:
  static constexpr std::size_t kMostErrorBytes = 4096;

  void forget();
  void judge_head();
  void conclude(const HttpEnd& end);

  BodyTaker& taker_;
  Pace& pace_;
  Countdown& countdown_;
  Pace::Server* server_ = nullptr;
  std::chrono::steady_clock::time_point sent_;
  std::uint64_t number_ = 0;
  std::atomic<bool> arrived_{false};
  HeadReader reader_;
  bool judged_ = false;
  Judgement result_;
  std::string error_body_;
  bool too_long_ = false;
  bool credentials_refused_ = false;
  bool private_peer_ = false;
};

}  // namespace penstock::http
