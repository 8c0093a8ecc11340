#include "pipeline/http/patience.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "pipeline/io/secrets.h"

namespace penstock::http {
namespace {

/// Returns a random factor in [0.5, 1.5), so that many waiting requests do not retry at once.
double some_factor() noexcept {
  static std::atomic<std::uint64_t> state{
      static_cast<std::uint64_t>(Patience::Clock::now().time_since_epoch().count())};
  std::uint64_t x = state.fetch_add(0x9e3779b97f4a7c15ULL, std::memory_order_relaxed);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return 0.5 + static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

std::chrono::milliseconds time_of(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kLeastPerSecond = 64 << 10;
  constexpr std::uint64_t kMostSeconds = 1 << 20;
  return std::chrono::seconds(std::min(bytes / kLeastPerSecond, kMostSeconds));
}

Patience::Patience(const RemoteOptions& options)
    : options_(options), deadline_(Clock::now() + options.deadline) {}

std::chrono::milliseconds Patience::left(std::uint64_t bytes) const noexcept {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(1)) + time_of(bytes);
}

bool Patience::again(Verdict verdict, int tries) const noexcept {
  const bool passing = verdict == Verdict::again || verdict == Verdict::throttled;
  if (!passing && verdict != Verdict::refused) return false;
  const int most = passing ? options_.retries : std::min(options_.retries, kRefusalsAsked);
  return tries <= most && Clock::now() < deadline_;
}

void Patience::wait(Verdict verdict, int tries) const {
  constexpr std::chrono::milliseconds kLongest(5000);
  const int doubled = verdict == Verdict::refused ? 0 : std::clamp(tries - 1, 0, 10);
  const auto wait = std::min(kLongest, options_.retry_wait * (1 << doubled));
  const std::chrono::duration<double, std::milli> some(static_cast<double>(wait.count()) *
                                                       some_factor());
  std::this_thread::sleep_until(
      std::min(deadline_, Clock::now() + std::chrono::duration_cast<Clock::duration>(some)));
}

Error error_of(const Judgement& result, const AnswerHead& head, const std::string& path,
               const Url& url, int tries, bool is_write) {
  ErrorCode code = ErrorCode::unavailable;
  const bool changed = head.status == 412 && !is_write;
  if (result.verdict == Verdict::changed || (result.verdict == Verdict::refused && changed))
    code = ErrorCode::changed;
  if (result.verdict == Verdict::refused && (head.status == 404 || head.status == 410))
    code = ErrorCode::not_found;
  if (result.verdict == Verdict::unusable || result.verdict == Verdict::redirect)
    code = ErrorCode::invalid_argument;
  std::string why = is_write  ? "can't write: "
                    : changed ? "the object has changed since it was found: "
                              : "";
  why += scrubbed(result.why, {url.query, url.userinfo});
  if (tries > 1) why += " (" + std::to_string(tries) + " times)";
  return Error(code, why, {.shard = path});
}

}  // namespace penstock::http
