#include "report/text_layout.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock {
namespace {

constexpr std::string_view kReset = "\x1b[0m";

/// The first part of `text`: an escape sequence or one code point.
struct Piece {
  std::size_t bytes = 1;
  bool visible = true;
};

Piece next_piece(std::string_view text) {
  if (text.starts_with("\x1b[")) {
    std::size_t end = 2;
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return {std::min(end + 1, text.size()), false};
  }
  std::size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
  return {bytes, true};
}

}  // namespace

std::string paint(Colour colour, std::string_view text, bool enabled) {
  constexpr std::array<std::string_view, 8> kCodes{"",         "\x1b[2m",  "\x1b[1m",  "\x1b[32m",
                                                   "\x1b[33m", "\x1b[31m", "\x1b[34m", "\x1b[36m"};
  if (!enabled || colour == Colour::none || text.empty()) return std::string(text);
  std::string out(kCodes[static_cast<std::size_t>(colour)]);
  out += text;
  out += kReset;
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Piece piece = next_piece(text);
    columns += piece.visible ? 1 : 0;
    text.remove_prefix(piece.bytes);
  }
  return columns;
}

std::string fit(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::string out;
  bool coloured = false;
  for (std::size_t used = 0; used + 1 < columns;) {
    const Piece piece = next_piece(text);
    out += text.substr(0, piece.bytes);
    coloured = coloured || !piece.visible;
    used += piece.visible ? 1 : 0;
    text.remove_prefix(piece.bytes);
  }
  out += "…";
  if (coloured) out += kReset;
  return out;
}

std::string wrap(std::string_view text, std::size_t columns) {
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const std::size_t width = display_width(word);
    if (!out.empty()) {
      const bool fits = used + 1 + width <= columns;
      out += fits ? ' ' : '\n';
      used = fits ? used + 1 : 0;
    }
    out += word;
    used += width;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string pad(std::string_view text, std::size_t columns, bool right) {
  const std::size_t width = display_width(text);
  const std::string blanks(width < columns ? columns - width : 0, ' ');
  return right ? blanks + std::string(text) : std::string(text) + blanks;
}

std::string bar(double share, std::size_t columns) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clean = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
  const auto eighths =
      static_cast<std::size_t>(std::lround(clean * 8 * static_cast<double>(columns)));
  std::string out;
  for (std::size_t i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[eighths % 8];
  return pad(out, columns);
}

}  // namespace penstock
