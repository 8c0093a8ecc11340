#include "pipelines/numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 9> kByteUnits{{{"b", 1},
                                          {"kb", 1e3},
                                          {"mb", 1e6},
                                          {"gb", 1e9},
                                          {"tb", 1e12},
                                          {"kib", 1024.0},
                                          {"mib", 1024.0 * 1024},
                                          {"gib", 1024.0 * 1024 * 1024},
                                          {"tib", 1024.0 * 1024 * 1024 * 1024}}};

template <typename T>
bool read_whole(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

std::int64_t parse_integer(std::string_view text) {
  std::int64_t value = 0;
  if (!read_whole(text, value)) throw UsageError("expected an integer, got " + in_quotes(text));
  return value;
}

double parse_number(std::string_view text) {
  double value = 0;
  if (!read_whole(text, value) || !std::isfinite(value))
    throw UsageError("expected a number, got " + in_quotes(text));
  return value;
}

bool parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw UsageError("expected true or false, got " + in_quotes(text));
}

std::int64_t parse_bytes(std::string_view text) {
  std::int64_t whole = 0;
  if (read_whole(text, whole) && whole >= 0) return whole;
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string unit = lower(digits == text.npos ? "" : text.substr(digits));
  double value = 0;
  for (const Unit& known : kByteUnits) {
    if (unit != known.name || !read_whole(text.substr(0, digits), value)) continue;
    const double bytes = value * known.factor;
    if (bytes < 0x1p62) return std::llround(bytes);
  }
  throw UsageError("expected a number of bytes such as 96MiB, 2GiB or 1.5GB, got " +
                   in_quotes(text));
}

Extent parse_extent(std::string_view text) {
  constexpr int kMost = 65'535;
  const std::size_t cross = text.find('x');
  Extent extent;
  const bool one = cross == text.npos;
  if (!read_whole(text.substr(0, cross), extent.height) ||
      (!one && !read_whole(text.substr(cross + 1), extent.width)) || extent.height < 1 ||
      extent.height > kMost || (!one && extent.width < 1) || extent.width > kMost)
    throw UsageError("expected a size such as 256 or 375x500, each at most 65535, got " +
                     in_quotes(text));
  return extent;
}

std::string to_string(const Extent& extent) {
  const std::string height = std::to_string(extent.height);
  return extent.width == 0 ? height : height + "x" + std::to_string(extent.width);
}

ErrorBudget parse_error_budget(std::string_view text) {
  ErrorBudget budget;
  if (!text.empty() && text.back() == '%') {
    double percent = 0;
    if (read_whole(text.substr(0, text.size() - 1), percent) && percent >= 0 && percent <= 100) {
      budget.share = percent / 100;
      return budget;
    }
  } else if (read_whole(text, budget.count)) {
    return budget;
  }
  throw UsageError("expected a count such as 100 or a share such as 1%, got " + in_quotes(text));
}

}  // namespace penstock::tool
