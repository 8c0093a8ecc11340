// Numbers as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::tool {

/// All parsers take the whole text, without surrounding blanks, and throw UsageError that says what
/// was expected and what was found.
std::int64_t parse_integer(std::string_view text);
/// A finite number.
double parse_number(std::string_view text);
/// "true" or "false".
bool parse_boolean(std::string_view text);
/// "4096", "96MiB", "1.5GB": powers of 1,024 for KiB…TiB and of 1,000 for kB…TB, in any case.
std::int64_t parse_bytes(std::string_view text);

/// Height and width. A width of 0 says that one number alone was given.
struct Extent {
  int height = 0;
  int width = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};
/// "375x500" or "256"; each at most 65,535.
Extent parse_extent(std::string_view text);
std::string to_string(const Extent& extent);

/// How many errors are too many: a count, or a share of the elements ("100", "1%").
struct ErrorBudget {
  std::uint64_t count = UINT64_MAX;
  double share = 1.0;
};
ErrorBudget parse_error_budget(std::string_view text);

/// "512 B", "96.0 MiB".
std::string human_bytes(double bytes);
/// "96MiB" if exact, else the plain number; `parse_bytes` reads it back.
std::string exact_bytes(std::int64_t bytes);
/// "1,234,567".
std::string grouped(std::uint64_t value);
/// Three significant digits and a unit: "842", "12.3k", "4.56M".
std::string human_count(double value);
/// "850 ns", "12.3 ms", "4.56 s", "3 min 07 s".
std::string human_seconds(double seconds);
/// "83%", "0.4%".
std::string human_share(double share);

}  // namespace penstock::tool
