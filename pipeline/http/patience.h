// The rules for answers that are not good: whether and when to retry, and the final error.
#pragma once

#include <chrono>
#include <string>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "pipeline/http/answer.h"
#include "pipeline/io/url.h"

namespace penstock::http {

inline constexpr int kRefusalsAsked = 2;  ///< retries of a refusal

/// The tries of one request.
struct Tries {
  int sent = 0;
  int failed = 0;  ///< of these, those that count
  std::uint64_t goods = 0;

  /// Counts a try that failed. `goods_now`: the good answers of its server so far. A throttled try
  /// counts only if its server gave none since the last one: it serves others, and this request
  /// will have its turn.
  void fail(Verdict verdict, std::uint64_t goods_now) noexcept {
    if (verdict != Verdict::throttled || goods_now == goods) ++failed;
    goods = goods_now;
  }
};

/// The retries of one request, and their common deadline. REQUIRES: the options outlive it.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(const RemoteOptions& options);

  Clock::time_point deadline() const noexcept { return deadline_; }
  /// Returns the time for a try that transfers so many bytes.
  std::chrono::milliseconds left(std::uint64_t bytes) const noexcept;
  /// Begins again: another request of the same read has come to its end.
  void restart() noexcept { deadline_ = Clock::now() + options_.deadline; }
  /// Returns true if a request may be retried after so many failed tries, the last of which had
  /// this verdict.
  bool again(Verdict verdict, int tries) const noexcept;
  void wait(Verdict verdict, int tries) const;

 private:
  const RemoteOptions& options_;
  Clock::time_point deadline_;
};

/// Returns the time that these bytes may take, beyond the deadline, if they come slowly.
std::chrono::milliseconds time_of(std::uint64_t bytes) noexcept;

/// Returns the error of a request that failed `tries` times, from its last answer. `is_write`: the
/// request was to write the object, not to read it.
Error error_of(const Judgement& result, const AnswerHead& head, const std::string& path,
               const Url& url, int tries, bool is_write = false);

}  // namespace penstock::http
