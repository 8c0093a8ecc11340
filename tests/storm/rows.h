// The runs during which allocations fail.
#pragma once

#include <string>
#include <vector>

#include "tests/storm/delivered.h"

namespace penstock::storm {

/// A small run of one part of the library.
struct Row {
  const char* name;
  /// Runs it over the files in the folder and records the deliveries. Errors of any kind are
  /// recorded, too; no exception leaves it.
  void (*run)(const std::string& folder, Delivered& out);
};

std::vector<Row> rows();
/// Writes the files that the rows read. Runs datasets itself.
void write_files(const std::string& folder);

}  // namespace penstock::storm
