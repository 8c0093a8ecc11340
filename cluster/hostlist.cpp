#include "cluster/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "cluster/refuse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kBetweenNames = ", \t\n";

/// Numbers in brackets: "08-11", or "20".
struct Run {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;  ///< numbers with fewer digits begin with zeros
};

/// The numbers of a bracket, and the one whose turn it is.
class Bracket {
 public:
  explicit Bracket(std::vector<Run> runs) : runs_(std::move(runs)), number_(runs_.front().first) {}

  std::string text() const {
    std::string digits = std::to_string(number_);
    const std::size_t width = runs_[run_].width;
    return std::string(width - std::min(width, digits.size()), '0') + digits;
  }
  /// Advances to the next number. Returns false, and starts again, after the last one.
  bool advance() {
    if (number_ < runs_[run_].last) {
      ++number_;
      return true;
    }
    run_ = (run_ + 1) % runs_.size();
    number_ = runs_[run_].first;
    return run_ != 0;
  }

 private:
  std::vector<Run> runs_;
  std::size_t run_ = 0;
  std::uint64_t number_;
};

/// One name of the list: texts with a bracket between each two of them.
struct Name {
  std::vector<std::string> texts{std::string()};
  std::vector<Bracket> brackets{};

  std::string host() const {
    std::string host = texts.front();
    for (std::size_t i = 0; i < brackets.size(); ++i) host += brackets[i].text() + texts[i + 1];
    return host;
  }
  /// Advances to the next host; returns false after the last one. Slurm counts with the last
  /// bracket fastest, and then with the others from the left.
  bool advance() {
    if (brackets.empty()) return false;
    if (brackets.back().advance()) return true;
    return std::any_of(brackets.begin(), brackets.end() - 1,
                       [](Bracket& bracket) { return bracket.advance(); });
  }
};

class Parser {
 public:
  Parser(std::string_view list, const std::string& what) : list_(list), what_(what) {}

  std::vector<Name> names() {
    std::vector<Name> names;
    while ((at_ = list_.find_first_not_of(kBetweenNames, at_)) != std::string_view::npos)
      names.push_back(name());
    if (names.empty()) fail("names no host");
    return names;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    refuse(what_ + ": '" + std::string(list_.substr(0, 80)) + "' is not a list of hosts: " + why);
  }

  Name name() {
    Name name;
    while (at_ < list_.size() && kBetweenNames.find(list_[at_]) == std::string_view::npos) {
      if (list_[at_] == ']') fail("a ] has no [ before it");
      if (list_[at_] == '[') {
        name.brackets.emplace_back(bracket());
        name.texts.emplace_back();
      } else {
        name.texts.back() += list_[at_++];
      }
    }
    return name;
  }

  Bracket bracket() {
    const std::size_t end = list_.find(']', at_);
    if (end == std::string_view::npos) fail("a [ has no ] after it");
    std::string_view inside = list_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    std::vector<Run> runs;
    for (;;) {
      const std::size_t comma = inside.find(',');
      runs.push_back(run(inside.substr(0, comma)));
      if (comma == std::string_view::npos) return Bracket(std::move(runs));
      inside.remove_prefix(comma + 1);
    }
  }

  Run run(std::string_view text) const {
    const std::size_t dash = text.find('-');
    const std::string_view first = text.substr(0, dash);
    Run run{.first = number(first, text), .width = first.size()};
    run.last = dash == std::string_view::npos ? run.first : number(text.substr(dash + 1), text);
    if (run.last < run.first) fail("'" + std::string(text) + "' is an empty range");
    return run;
  }

  std::uint64_t number(std::string_view digits, std::string_view text) const {
    std::uint64_t number = 0;
    const auto [rest, wrong] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (wrong != std::errc() || rest != digits.data() + digits.size())
      fail("'" + std::string(text.substr(0, 80)) + "' in brackets is neither a number nor a range");
    return number;
  }

  std::string_view list_;
  const std::string& what_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> hosts_in(std::string_view list, std::size_t most,
                                  const std::string& what) {
  std::vector<std::string> hosts;
  for (Name& name : Parser(list, what).names()) {
    do {
      if (hosts.size() == most) return hosts;
      hosts.push_back(name.host());
    } while (name.advance());
  }
  return hosts;
}

}  // namespace penstock::cluster
