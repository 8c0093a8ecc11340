// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace penstock::tool {

/// Rows of cells, set in columns as wide as needed. Cells may hold colours.
class Table {
 public:
  struct Column {
    std::string head;
    bool right = false;  ///< aligned on the right, as numbers are
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// REQUIRES: as many cells as columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines at most `width` columns wide, the head first; the first column gives way.
  std::vector<std::string> lines(std::size_t width, bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock::tool
