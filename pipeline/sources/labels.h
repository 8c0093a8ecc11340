// Class labels from the names of files and archive members.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Says which class a path belongs to. Thread-safe.
///
///     LabelRule("").text("train/cat/1.jpg");             // "cat", the parent folder
///     LabelRule("^(\\w+?)_").text("train/dog_7.jpg");     // "dog", a match on the file's name
class LabelRule {
 public:
  /// `regex` is ECMAScript with one group; it is searched for in the file's name, or in the whole
  /// path if it has a '/'. Empty: the parent folder's name ("." without one). Throws
  /// Error{invalid_argument} for anything else.
  explicit LabelRule(const std::string& regex);

  /// Nothing if the expression does not match. Names of more than kLongest bytes never match.
  std::optional<std::string> text(std::string_view path) const;

  static constexpr std::size_t kLongest = 1024;

 private:
  std::optional<std::regex> regex_;
  bool whole_path_ = false;
};

/// Distinct class names in bytewise order, and for each text its name's position.
struct Classes {
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;
};
Classes count_classes(const std::vector<std::string>& texts);

}  // namespace penstock
