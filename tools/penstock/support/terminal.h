// The abilities of the terminal, and drawings on it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "report/text_layout.h"  // IWYU pragma: export

namespace penstock::tool {

/// The properties of the output that a stream leads to.
struct TerminalTraits {
  bool interactive = false;  ///< a terminal that can move its cursor
  bool colour = false;       ///< interactive, and NO_COLOR is not set
  int width = 100;           ///< columns
  int height = 30;           ///< rows
};
TerminalTraits traits_of(std::FILE* stream);

/// Returns a chart with one character for each value, in eight heights scaled to the largest value.
std::string sparkline(const std::vector<double>& values);

/// A block of lines that is redrawn in place. The cursor is hidden while the block is shown. The
/// destructor clears the block and shows the cursor again. Not synchronised.
class Canvas {
 public:
  explicit Canvas(std::FILE* stream) : stream_(stream) {}
  ~Canvas() { clear(); }
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  /// Draws the lines in place of the previous ones. REQUIRES: no line is wider than the terminal.
  void draw(const std::vector<std::string>& lines);
  /// Clears the block. Idempotent.
  void clear() noexcept;
  /// The bytes that show the cursor again. Any code may write them.
  static constexpr std::string_view kRestore = "\x1b[?25h\x1b[0m";

 private:
  std::FILE* const stream_;
  std::size_t drawn_ = 0;
};

}  // namespace penstock::tool
