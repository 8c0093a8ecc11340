// The time that answers take, and the limit after which one is late.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::http {

/// Keeps the durations of the last answers of each size class. Not thread-safe.
class Lateness {
 public:
  static constexpr std::size_t kKnown = 64;  ///< answers kept for each class
  static constexpr std::size_t kLeast = 16;  ///< fewest answers from which a limit is computed
  static constexpr double kSoonest = 20e-3;  ///< in seconds; no answer is late before

  void took(std::uint64_t bytes, double seconds) noexcept;
  /// Returns the seconds after which an answer of this size is late: the largest of four times the
  /// median of its class, 1.5 times its 90th percentile, and `kSoonest`. Infinite if too few
  /// answers are known.
  double late_after(std::uint64_t bytes) const noexcept;

 private:
  static constexpr std::size_t kClasses = 10;
  struct SizeClass {
    std::array<float, kKnown> seconds{};
    std::size_t count = 0;  // of all answers so far
    double late_s = 0;
  };
  static std::size_t class_of(std::uint64_t bytes) noexcept;

  std::array<SizeClass, kClasses> classes_;
};

}  // namespace penstock::http
