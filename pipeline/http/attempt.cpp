#include "pipeline/http/attempt.h"

#include <cstdlib>
#include <ctime>

#include <penstock/error.h>

namespace penstock::http {
namespace {

/// Signatures contain the time, so a wrong clock looks like a wrong key.
std::string clock_remark(const std::string& date) {
  constexpr std::int64_t kMuch = 240;  // seconds
  std::tm parts{};
  if (::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts) == nullptr) return {};
  const std::int64_t ahead = std::time(nullptr) - ::timegm(&parts);
  if (std::abs(ahead) < kMuch) return {};
  return "; this machine's clock is " + std::to_string(std::abs(ahead) / 60) + " minutes " +
         (ahead > 0 ? "ahead of" : "behind") + " the server's";
}

std::string_view origin_of(std::string_view url) noexcept {
  const std::size_t scheme = url.find("://");
  return url.substr(0, scheme == url.npos ? url.npos : url.find('/', scheme + 3));
}

}  // namespace

void Countdown::add() {
  const MutexLock lock(mutex_);
  ++left_;
}

void Countdown::arrived() noexcept {
  const MutexLock lock(mutex_);
  --left_;
  ++arrivals_;
  changed_.notify_all();
}

void Countdown::wait() {
  const MutexLock lock(mutex_);
  while (left_ > 0) changed_.wait(mutex_);
}

std::uint64_t Countdown::arrivals() {
  const MutexLock lock(mutex_);
  return arrivals_;
}

bool Countdown::wait(std::chrono::steady_clock::time_point until, std::uint64_t known) {
  const MutexLock lock(mutex_);
  while (left_ > 0 && arrivals_ <= known) {
    if (std::chrono::steady_clock::now() >= until) return false;
    changed_.wait_until(mutex_, until);
  }
  return left_ == 0;
}

void Attempt::forget() {
  arrived_ = false;
  reader_ = {};
  judged_ = false;
  too_long_ = false;
  credentials_refused_ = false;
  error_body_.clear();
  result_ = {};
  taker_.restart();
}

void Attempt::start(HttpTransport& transport, const HttpRequest& request, bool again,
                    std::chrono::steady_clock::time_point deadline) {
  std::string before = std::move(result_.why);
  forget();
  server_ = &pace_.server(origin_of(request.url));
  if (!pace_.acquire(*server_, deadline)) {
    if (!before.empty()) before += "; ";
    result_ = {Verdict::again, before +
                                   "the request could not be sent in time: the server throttles, "
                                   "or too many requests are in flight"};
    arrived_ = true;
    return;
  }
  pace_.sent(again);
  send(transport, request, *server_);
}

void Attempt::send(HttpTransport& transport, const HttpRequest& request, Pace::Server& server) {
  forget();
  server_ = &server;
  countdown_.add();
  sent_ = std::chrono::steady_clock::now();
  try {
    number_ = transport.start(request, *this);
  } catch (const Error& error) {
    result_ = {Verdict::again, error.cause()};
    arrived_ = true;
    pace_.release();
    countdown_.arrived();
  } catch (...) {
    pace_.release();
    countdown_.arrived();
    throw;
  }
}

bool Attempt::head_line(std::string_view line) noexcept {
  return reader_.line(line);
}

void Attempt::judge_head() {
  if (judged_) return;
  judged_ = true;
  result_ = taker_.judge(reader_.head());
}

bool Attempt::body(std::span<const std::byte> bytes) noexcept try {
  judge_head();
  if (result_.verdict == Verdict::good) {
    too_long_ = !taker_.take(bytes);
    return !too_long_;
  }
  const std::size_t room = kMostErrorBytes - error_body_.size();
  const std::size_t n = std::min(room, bytes.size());
  error_body_.append(reinterpret_cast<const char*>(bytes.data()), n);
  // An error's body is only looked at, and not read to its end.
  return error_body_.size() < kMostErrorBytes;
} catch (...) {
  return false;
}

void Attempt::done(const HttpEnd& end) noexcept {
  try {
    conclude(end);
  } catch (...) {  // no memory to say what it is
    result_.verdict = Verdict::again;
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - sent_;
  pace_.came(end.body_bytes, waited.count());
  if (result_.verdict == Verdict::good && taker_.is_write())
    pace_.wrote(*server_, taker_.bytes_written());
  if (result_.verdict == Verdict::good && !taker_.is_write())
    pace_.good(*server_, end.first_byte_s, end.total_s, waited.count(), end.body_bytes);
  if (result_.verdict == Verdict::throttled)
    pace_.throttled(*server_, sent_, reader_.head().retry_after_s);
  pace_.release();
  arrived_.store(true, std::memory_order_release);
  countdown_.arrived();  // from here on it may be gone
}

void Attempt::conclude(const HttpEnd& end) {
  private_peer_ = end.private_peer;
  if (reader_.head().status == 0 && !end.complete) {
    result_ = {end.lasting ? Verdict::unusable : Verdict::again, std::string(end.failure)};
    return;
  }
  judge_head();
  if (result_.verdict != Verdict::good) {
    const int status = reader_.head().status;
    const bool data = status == 206 || (status == 200 && !taker_.is_write()) ||
                      result_.verdict == Verdict::changed;
    const std::string said = data ? std::string() : first_line(error_body_);
    if (!said.empty()) result_.why += ": " + said;
    credentials_refused_ = refuses_credentials(reader_.head(), error_body_);
    if (!credentials_refused_) return;
    result_.verdict = Verdict::refused;
    result_.why += clock_remark(reader_.head().date);
    return;
  }
  if (too_long_) {
    result_ = taker_.too_long();
  } else if (!end.complete) {
    result_ = {Verdict::again, std::string(end.failure)};
  } else if (!taker_.full()) {
    result_ = {Verdict::again, "the body is shorter than what was asked for"};
  } else {
    result_ = taker_.judge_body();
  }
}

}  // namespace penstock::http
