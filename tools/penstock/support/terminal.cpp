#include "tools/penstock/support/terminal.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::tool {

TerminalTraits traits_of(std::FILE* stream) {
  TerminalTraits traits;
  const int fd = fileno(stream);
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  traits.interactive = fd >= 0 && isatty(fd) == 1 && term != nullptr &&
                       std::string_view(term) != "dumb" && *term != '\0';
  traits.colour = traits.interactive && (no_colour == nullptr || *no_colour == '\0');
  winsize size{};
  if (fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    traits.width = size.ws_col;
    traits.height = size.ws_row;
  }
  return traits;
}

std::string sparkline(const std::vector<double>& values) {
  constexpr std::array<std::string_view, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double most = 0;
  for (const double value : values) most = std::max(most, value);
  std::string out;
  for (const double value : values) {
    const double share = most > 0 ? std::max(0.0, value) / most : 0;
    out += kHeights[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))];
  }
  return out;
}

void Canvas::draw(const std::vector<std::string>& lines) {
  std::string frame = drawn_ == 0 ? "\x1b[?25l" : "\x1b[" + std::to_string(drawn_) + "F";
  for (const std::string& line : lines) frame += line + "\x1b[K\n";
  frame += "\x1b[J";
  drawn_ = lines.size();
  std::fwrite(frame.data(), 1, frame.size(), stream_);
  std::fflush(stream_);
}

void Canvas::clear() noexcept {
  if (drawn_ == 0) return;
  std::fprintf(stream_, "\x1b[%zuF\x1b[J%.*s", drawn_, static_cast<int>(kRestore.size()),
               kRestore.data());
  std::fflush(stream_);
  drawn_ = 0;
}

}  // namespace penstock::tool
