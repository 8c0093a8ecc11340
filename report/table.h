// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// A table of text. Columns are as wide as their cells need. Cells may contain colours.
class Table {
 public:
  struct Column {
    std::string head;
    bool right = false;  ///< aligned on the right, like numbers
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row. REQUIRES: as many cells as columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Returns the lines, the heads first. Lines are at most `width` columns wide; the first column
  /// shrinks if necessary.
  std::vector<std::string> lines(std::size_t width, bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock
