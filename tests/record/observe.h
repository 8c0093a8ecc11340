// What is recorded of a graph: a text that depends on nothing but the graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/record/graph.h"

namespace penstock::test {

/// States, by how many lines of the run were before them. They hold where the last snapshot was,
/// which depends on the threads, so that their bytes are not always the same.
using States = std::map<std::size_t, std::string>;

struct Observed {
  std::vector<std::string> about{};  ///< the graph: its specs, explain, guarantee, what is counted
  std::vector<std::string> run{};    ///< what each call of `next` returned
  std::vector<std::string> resumed{};  ///< where a restored run did anything else; empty
  States states{};                     ///< some of the run's
};

/// A case of the record.
struct Recorded {
  std::string name;
  std::function<Observed(const Setting&)> observe;
  /// What comes after a state of `observe`.
  std::function<std::vector<std::string>(const Setting&, std::size_t position,
                                         const std::string& state)>
      resume{};
  bool unordered = false;

  friend void PrintTo(const Recorded& graph, std::ostream* out) { *out << graph.name; }
};

/// All of them.
std::vector<Recorded> recorded();

Observed observe(const RecordedGraph& graph, const Setting& setting);
Observed observe(const RecordedRedeal& redeal, const Setting& setting);
Observed observe(const RecordedFeed& feed, const Setting& setting);
std::vector<std::string> resume(const RecordedFeed& feed, const Setting& setting,
                                std::size_t position, const std::string& state);
/// True if `rest` is what is left of `run` behind that position.
bool is_rest(const std::vector<std::string>& rest, const std::vector<std::string>& run,
             std::size_t position, bool unordered);

/// Digits that stand for an element: its components' names, dtypes, shapes and values, and how many
/// of its rows are valid.
std::string digest_of(const Element& element);
/// One line: code, cause and full address.
std::string line_of(const Error& error);
/// What is thrown by `act`, or "nothing".
std::string thrown_in_one_line(const std::function<void()>& act);
/// Indented lines of a text.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace penstock::test
