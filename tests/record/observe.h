// The recorded observations of a graph: a text that depends only on the graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/record/graph.h"

namespace penstock::test {

/// States, by the number of lines of the run before them. They contain the position of the last
/// snapshot, which depends on the threads, so their bytes may differ between runs.
using States = std::map<std::size_t, std::string>;

struct Observed {
  std::vector<std::string> about{};    ///< the graph: its specs, explain, guarantee, and counts
  std::vector<std::string> run{};      ///< the result of each call of `next`
  std::vector<std::string> resumed{};  ///< differences of a restored run; empty if there are none
  States states{};                     ///< some of the run's states
};

/// A case of the record.
struct Recorded {
  std::string name;
  std::function<Observed(const Setting&)> observe;
  /// Returns the outputs after a state of `observe`.
  std::function<std::vector<std::string>(const Setting&, std::size_t position,
                                         const std::string& state)>
      resume{};
  bool unordered = false;

  friend void PrintTo(const Recorded& graph, std::ostream* out) { *out << graph.name; }
};

/// Returns all cases.
std::vector<Recorded> recorded();

Observed observe(const RecordedGraph& graph, const Setting& setting);
Observed observe(const RecordedRedeal& redeal, const Setting& setting);
Observed observe(const RecordedFeed& feed, const Setting& setting);
std::vector<std::string> resume(const RecordedFeed& feed, const Setting& setting,
                                std::size_t position, const std::string& state);
/// True if `rest` is the part of `run` after that position.
bool is_rest(const std::vector<std::string>& rest, const std::vector<std::string>& run,
             std::size_t position, bool unordered);

/// Returns the digits that stand for an element: its components' names, dtypes, shapes and values,
/// and its number of valid rows.
std::string digest_of(const Element& element);
/// Returns the code, the cause and the full address in one line.
std::string line_of(const Error& error);
/// Returns the error that `act` throws, or "nothing".
std::string thrown_in_one_line(const std::function<void()>& act);
/// Returns the lines of a text, indented.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace penstock::test
