#include "pipeline/sources/near_name.h"

#include <algorithm>
#include <array>
#include <vector>

namespace penstock {
namespace {

enum Difference { kBlanks, kCase, kQuotes, kMarks, kNumber };
constexpr std::array<std::string_view, kNumber> kNames{"blanks", "case", "quotes",
                                                       "byte order marks"};

/// Texts that make a difference.
struct Overlooked {
  Difference difference;
  std::string_view text;
};
constexpr Overlooked kOverlooked[] = {
    {kBlanks, " "},
    {kBlanks, "\t"},
    {kBlanks, "\r"},
    {kBlanks, "\n"},
    {kBlanks, "\xc2\xa0"},      // no-break space
    {kBlanks, "\xe2\x80\x8b"},  // zero width space
    {kQuotes, "\""},
    {kQuotes, "'"},
    {kQuotes, "`"},
    {kQuotes, "\xe2\x80\x98"},
    {kQuotes, "\xe2\x80\x99"},
    {kQuotes, "\xe2\x80\x9c"},
    {kQuotes, "\xe2\x80\x9d"},
    {kMarks, "\xef\xbb\xbf"},
};

/// Returns the name without all differences except `kept` (kNumber: without all).
std::string folded(std::string_view name, Difference kept) {
  std::string out;
  while (!name.empty()) {
    const auto* const found = std::ranges::find_if(
        kOverlooked, [&](const Overlooked& one) { return name.starts_with(one.text); });
    if (found != std::end(kOverlooked)) {
      if (found->difference == kept) out += found->text;
      name.remove_prefix(found->text.size());
      continue;
    }
    const char c = name.front();
    out += kept != kCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    name.remove_prefix(1);
  }
  return out;
}

std::vector<std::string_view> differences(std::string_view a, std::string_view b) {
  std::vector<std::string_view> found;
  for (int i = 0; i < kNumber; ++i) {
    const auto kind = static_cast<Difference>(i);
    if (folded(a, kind) != folded(b, kind)) found.push_back(kNames[static_cast<std::size_t>(i)]);
  }
  return found;
}

}  // namespace

std::string near_name(std::string_view name, std::span<const std::string> names) {
  const std::string wanted = folded(name, kNumber);
  std::string_view nearest;
  std::vector<std::string_view> least;
  for (const std::string& other : names) {
    if (wanted.empty() || folded(other, kNumber) != wanted) continue;
    std::vector<std::string_view> these = differences(name, other);
    if (!nearest.empty() && these.size() >= least.size()) continue;
    nearest = other;
    least = std::move(these);
  }
  if (nearest.empty()) return {};
  std::string text = "'" + std::string(nearest) + "', which differs in ";
  for (std::size_t i = 0; i < least.size(); ++i)
    text += std::string(i == 0                  ? ""
                        : i + 1 == least.size() ? " and "
                                                : ", ") +
            std::string(least[i]);
  return text;
}

}  // namespace penstock
