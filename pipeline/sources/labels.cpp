#include "pipeline/sources/labels.h"

#include <algorithm>

#include <penstock/error.h>

namespace penstock {

LabelRule::LabelRule(const std::string& regex) {
  if (regex.empty()) return;
  try {
    regex_.emplace(regex, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw Error(ErrorCode::invalid_argument,
                "the label expression '" + regex + "' is none: " + error.what());
  }
  if (regex_->mark_count() != 1) {
    throw Error(ErrorCode::invalid_argument, "the label expression '" + regex + "' must have one " +
                                                 "group, not " +
                                                 std::to_string(regex_->mark_count()));
  }
  whole_path_ = regex.find('/') != std::string::npos;
}

std::optional<std::string> LabelRule::text(std::string_view path) const {
  const std::size_t slash = path.rfind('/');
  if (!regex_) {
    if (slash == std::string_view::npos) return ".";
    const std::string_view folder = path.substr(0, slash);
    return std::string(folder.substr(folder.rfind('/') + 1));
  }
  if (!whole_path_ && slash != std::string_view::npos) path.remove_prefix(slash + 1);
  // The recursion of the library's matcher is as deep as its input is long.
  if (path.size() > kLongest) return std::nullopt;
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(path.begin(), path.end(), match, *regex_)) return std::nullopt;
  return match[1].str();
}

std::optional<std::string_view> folder_at(std::string_view path, std::int64_t depth) {
  for (;; --depth) {
    const std::size_t slash = path.find('/');
    if (slash == path.npos) return std::nullopt;
    if (depth == 1) return path.substr(0, slash);
    path.remove_prefix(slash + 1);
  }
}

void ClassCounter::add(std::string_view text) {
  auto at = numbers_.find(text);
  if (at == numbers_.end()) {
    at = numbers_.emplace(std::string(text), static_cast<std::int32_t>(numbers_.size())).first;
  }
  labels_.push_back(at->second);
}

Classes ClassCounter::take() {
  Classes classes;
  std::vector<std::int32_t> in_order(numbers_.size());
  for (const auto& [name, number] : numbers_) {
    in_order[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(classes.names.size());
    classes.names.push_back(name);
  }
  for (std::int32_t& label : labels_) label = in_order[static_cast<std::size_t>(label)];
  classes.labels = std::move(labels_);
  classes.labels.shrink_to_fit();
  return classes;
}

}  // namespace penstock
