// What runs while allocations fail.
#pragma once

#include <string>
#include <vector>

#include "tests/storm/delivered.h"

namespace penstock::storm {

/// A small run of one part of the library.
struct Row {
  const char* name;
  /// Runs it over the files in the folder and writes down what it delivers. Errors of any kind are
  /// written down too; nothing leaves it.
  void (*run)(const std::string& folder, Delivered& out);
};

std::vector<Row> rows();
/// Writes the files that they read. Runs datasets itself.
void write_files(const std::string& folder);

}  // namespace penstock::storm
