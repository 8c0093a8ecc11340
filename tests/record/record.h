// The record: a text file with the outputs of each graph.
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

/// The entries of the record, by name. As text, an entry has a line "== NAME", the lines about the
/// graph, and "run:" with an indented line for each outcome. Then "state at POSITION: " and digits
/// follow for each state.
using Record = std::map<std::string, Entry>;

/// Returns the path of the record in the sources.
std::string record_path();
Record read_record(const std::string& path);
std::string text_of(const Record& record);

/// Returns the lines of an entry that are not states.
std::vector<std::string> lines_of(const Entry& entry);
/// Returns the lines that only one of them has, marked by - and +; empty if there are none.
std::string difference(const std::vector<std::string>& recorded,
                       const std::vector<std::string>& now);

}  // namespace penstock::test
