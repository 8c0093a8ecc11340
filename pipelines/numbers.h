// Numbers in the forms that people write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/format.h"  // IWYU pragma: export

namespace penstock::tool {

/// All parsers take the whole text, without surrounding blanks. They throw UsageError, which says
/// what was expected and what was found.
std::int64_t parse_integer(std::string_view text);
/// Parses a finite number.
double parse_number(std::string_view text);
/// Parses "true" or "false".
bool parse_boolean(std::string_view text);
/// Parses "4096", "96MiB" or "1.5GB". KiB to TiB are powers of 1,024, and kB to TB powers of 1,000;
/// upper and lower case are equal.
std::int64_t parse_bytes(std::string_view text);

/// Height and width. A width of 0 means that only one number was given.
struct Extent {
  int height = 0;
  int width = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};
/// Parses "375x500" or "256"; each number at most 65,535.
Extent parse_extent(std::string_view text);
std::string to_string(const Extent& extent);

/// The errors that a run tolerates: a count, or a share of the elements ("100", "1%").
struct ErrorBudget {
  std::uint64_t count = UINT64_MAX;
  std::optional<double> share{};
};
ErrorBudget parse_error_budget(std::string_view text);

}  // namespace penstock::tool
