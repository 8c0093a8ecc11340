// The environment variables that launchers give to a process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::cluster {

/// A set of variable names and values; immutable. An empty variable counts as not set, because
/// shells clear variables that way.
class Environment {
 public:
  using Map = std::map<std::string, std::string, std::less<>>;

  explicit Environment(Map variables) : variables_(std::move(variables)) {}
  /// Returns the variables the process was started with and those it has set since. Must not run
  /// while another thread sets variables.
  static Environment of_process();

  /// Returns null if the variable is not set.
  const std::string* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the variable's value, a whole number from `least` to 2^31 - 1. Throws
  /// Error{invalid_argument}, which names the variable and its value, if it holds anything else.
  std::optional<int> number(std::string_view name, int least = 0) const;
  /// Does the same for numbers of jobs, from 0 to 2^64 - 1.
  std::optional<std::uint64_t> large_number(std::string_view name) const;

 private:
  Map variables_;
};

}  // namespace penstock::cluster
