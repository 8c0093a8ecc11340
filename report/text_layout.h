// Text that fits into a width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

enum class Colour { none, dim, bold, green, yellow, red, blue, cyan };

/// Returns `text` in a colour, or unchanged unless `enabled`.
std::string paint(Colour colour, std::string_view text, bool enabled);

/// Returns the number of columns that `text` takes: none for escape sequences, one for each code
/// point.
std::size_t display_width(std::string_view text);
/// Returns the text cut to at most `columns`. If something was cut, it ends with an ellipsis. Open
/// colours are closed.
std::string fit(std::string_view text, std::size_t columns);
/// Breaks the text at blanks into lines of at most `columns` columns. A longer word stays whole.
std::string wrap(std::string_view text, std::size_t columns);
/// Fills the text with blanks up to `columns`, on the right or, with `right`, on the left.
std::string pad(std::string_view text, std::size_t columns, bool right = false);

/// Returns a bar of `columns` columns. Its left `share` (0 to 1) is filled, to an eighth of a
/// column.
std::string bar(double share, std::size_t columns);

}  // namespace penstock
