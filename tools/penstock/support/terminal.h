// What the terminal can do, and text that fits it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tool {

/// Where a stream goes.
struct TerminalTraits {
  bool interactive = false;  ///< a terminal that can move its cursor
  bool colour = false;       ///< interactive, and NO_COLOR is not set
  int width = 100;           ///< columns
  int height = 30;           ///< rows
};
TerminalTraits traits_of(std::FILE* stream);

enum class Colour { none, dim, bold, green, yellow, red, blue, cyan };

/// `text` in a colour, or as it is.
std::string paint(Colour colour, std::string_view text, bool enabled);

/// Columns that `text` takes; escape sequences take none, every code point one.
std::size_t display_width(std::string_view text);
/// Cut to at most `columns`, an ellipsis at the end if something is missing; colours are closed.
std::string fit(std::string_view text, std::size_t columns);
/// Lines of at most `columns` columns, broken at blanks (a longer word stays whole).
std::string wrap(std::string_view text, std::size_t columns);
/// Filled with blanks up to `columns`, on the right or (`right`) on the left.
std::string pad(std::string_view text, std::size_t columns, bool right = false);

/// A bar of `columns` whose left `share` (0 to 1) is full, to an eighth of a column.
std::string bar(double share, std::size_t columns);
/// One column of eight heights for each value, scaled to the largest.
std::string sparkline(const std::vector<double>& values);

/// A block of lines that is redrawn in place. The cursor is hidden meanwhile; the destructor clears
/// the block and shows it again. Not synchronised.
class Canvas {
 public:
  explicit Canvas(std::FILE* stream) : stream_(stream) {}
  ~Canvas() { clear(); }
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  /// REQUIRES: no line is wider than the terminal.
  void draw(const std::vector<std::string>& lines);
  /// Idempotent.
  void clear() noexcept;
  /// The bytes that show the cursor again; may be written from anywhere.
  static constexpr std::string_view kRestore = "\x1b[?25h\x1b[0m";

 private:
  std::FILE* const stream_;
  std::size_t drawn_ = 0;
};

}  // namespace penstock::tool
