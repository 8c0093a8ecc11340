#include "report/format.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace penstock {
namespace {

std::string print(const char* format, double value, std::string_view unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return std::string(text.data()) + std::string(unit);
}

/// Returns the format for three significant digits of values in [1, 1000).
const char* precision(double value) {
  return value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f";
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits{" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1023.95 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return print(unit == 0 ? "%.0f" : "%.1f", bytes, kUnits[unit]);
}

std::string exact_bytes(std::int64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits{"TiB", "GiB", "MiB", "KiB"};
  std::int64_t factor = 1LL << 40;
  for (const std::string_view unit : kUnits) {
    if (bytes != 0 && bytes % factor == 0)
      return std::to_string(bytes / factor) + std::string(unit);
    factor /= 1024;
  }
  return std::to_string(bytes);
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string plural(std::uint64_t count, const std::string& one, const std::string& many) {
  return grouped(count) + " " + (count == 1 ? one : many);
}

std::string human_count(double value) {
  constexpr std::array<std::string_view, 4> kUnits{"", "k", "M", "G"};
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  if (unit == 0 && value == std::floor(value)) return print("%.0f", value, "");
  return print(precision(value), value, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds >= 119.5) {
    const auto whole = std::llround(seconds);
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%lld min %02lld s", whole / 60, whole % 60);
    return text.data();
  }
  if (seconds >= 0.9995) return print(precision(seconds), seconds, " s");
  if (seconds >= 0.9995e-3) return print(precision(seconds * 1e3), seconds * 1e3, " ms");
  if (seconds >= 0.9995e-6) return print(precision(seconds * 1e6), seconds * 1e6, " µs");
  return print("%.0f", seconds * 1e9, " ns");
}

std::string human_share(double share) {
  const double percent = share * 100;
  return print(percent < 1.95 && percent > 0 ? "%.1f" : "%.0f", percent, "%");
}

std::string hex16(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace penstock
