#include "report/table.h"

#include <algorithm>

#include "report/text_layout.h"

namespace penstock {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastFirst = 12;

}  // namespace

std::vector<std::string> Table::lines(std::size_t width, bool colour) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t most = display_width(columns_[c].head);
    for (const auto& row : rows_) most = std::max(most, display_width(row[c]));
    widths.push_back(most);
    total += most + (c > 0 ? kGap : 0);
  }
  if (total > width && !widths.empty())
    widths[0] =
        std::max(std::min(widths[0], kLeastFirst), widths[0] - std::min(widths[0], total - width));
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text += std::string(kGap, ' ');
      const bool last = c + 1 == columns_.size() && !columns_[c].right;
      const std::string cell = fit(cell_of(c), widths[c]);
      text += last ? cell : pad(cell, widths[c], columns_[c].right);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return fit(text, width);
  };
  std::vector<std::string> out;
  out.push_back(line([&](std::size_t c) { return paint(Colour::dim, columns_[c].head, colour); }));
  for (const auto& row : rows_) out.push_back(line([&](std::size_t c) { return row[c]; }));
  return out;
}

}  // namespace penstock
