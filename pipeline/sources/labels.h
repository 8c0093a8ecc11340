// Class labels from the names of files and archive members.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A rule that tells the class of a path. An expression is matched in a time that is linear in the
/// length of the path, with bounded memory. Thread-safe.
///
///     LabelRule("").text("train/cat/1.jpg");             // "cat", the parent folder
///     LabelRule("^(\\w+?)_").text("train/dog_7.jpg");     // "dog", a match on the file's name
class LabelRule {
 public:
  /// Makes a rule from `regex`, an expression of RE2 with one group and at most kLongest bytes. It
  /// is searched for in the file's name, or in the whole path if it has a '/'. If it is empty, the
  /// class is the name of the parent folder ("." without one). Throws Error{invalid_argument} for
  /// any other text, and for every expression in a build without RE2.
  explicit LabelRule(const std::string& regex);

  /// Returns the class, or nothing if the expression does not match.
  std::optional<std::string> text(std::string_view path) const;

  static constexpr std::size_t kLongest = 1024;

 private:
  struct Expression;

  std::shared_ptr<const Expression> expression_;
  bool whole_path_ = false;
};

/// Returns the name of the folder number `depth` of a path, from 1; nothing if it has fewer.
///
///     folder_at("cat/images/1.jpg", 1);   // "cat"
std::optional<std::string_view> folder_at(std::string_view path, std::int64_t depth);

/// Distinct class names in bytewise order, and for each text the position of its name.
struct Classes {
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;
};

/// Counts the classes of many texts, of which it keeps each once.
class ClassCounter {
 public:
  void add(std::string_view text);
  /// Returns the number of classes so far.
  std::size_t size() const noexcept { return numbers_.size(); }
  /// Returns the classes of all texts, in the order in which these were added.
  Classes take();

 private:
  std::map<std::string, std::int32_t, std::less<>> numbers_;  // in the order of first texts
  std::vector<std::int32_t> labels_;
};

}  // namespace penstock
