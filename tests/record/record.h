// The record: a text file of what each graph gave.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/record/observe.h"

namespace penstock::test {

struct Entry {
  std::vector<std::string> about{};
  std::vector<std::string> run{};
  States states{};
};

/// By name. As text: a line "== NAME", the lines about the graph, "run:" and a line for each
/// outcome, indented, and "state at POSITION: " with digits for each state.
using Record = std::map<std::string, Entry>;

/// The path of the record in the sources.
std::string record_path();
Record read_record(const std::string& path);
std::string text_of(const Record& record);

/// What is no state of an entry, line by line.
std::vector<std::string> lines_of(const Entry& entry);
/// The lines of which one has other than the other, marked by - and +; empty if there are none.
std::string difference(const std::vector<std::string>& recorded,
                       const std::vector<std::string>& now);

}  // namespace penstock::test
