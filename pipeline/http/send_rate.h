// The rate of requests that a server takes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace penstock::http {

/// Limits the requests to one server after it has throttled, as CUBIC limits a connection
/// (RFC 9438). A cut goes to 0.7 of the rate at which good answers came, or of half the limit
/// before, if that is more. The limit then grows back, slowly around the rate before the cut and
/// faster beyond it, and by 20 requests per second each second at least. Not thread-safe. Times are
/// seconds from any fixed origin.
class SendRate {
 public:
  /// Takes the next place in the order of requests. Returns the time at which it may be sent.
  double take(double now_s) noexcept;
  /// Returns that time without taking the place.
  double next(double now_s) const noexcept;

  void good(double now_s) noexcept;
  /// `sent_s`: when the request was sent. One that was sent before the last cut, or within a second
  /// of it, tells nothing new. `retry_after_s`: the server's Retry-After, if it sent one.
  void throttled(double now_s, double sent_s, std::optional<std::uint64_t> retry_after_s) noexcept;

  /// Returns the number of good answers.
  std::uint64_t goods() const noexcept { return goods_; }
  /// Returns the limit in requests per second; nothing if there is none.
  std::optional<double> limit(double now_s) const noexcept;

 private:
  /// Counts events of the last second in tenths.
  class LastSecond {
   public:
    void add(double now_s) noexcept;
    double count(double now_s) const noexcept;

   private:
    static constexpr std::int64_t kParts = 10;
    std::array<std::uint32_t, kParts> counts_{};
    std::array<std::int64_t, kParts> times_{};  // in tenths of a second, plus one; 0: none
  };

  LastSecond sent_, good_;
  std::uint64_t goods_ = 0;
  double before_cut_ = 0;  // rate before the last cut; 0: there was none
  double cut_at_ = -1e9;
  double next_ = -1e9;
  double not_before_ = -1e9;
};

}  // namespace penstock::http
