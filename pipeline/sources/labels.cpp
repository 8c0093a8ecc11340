#include "pipeline/sources/labels.h"

#include <algorithm>
#include <array>

#include <penstock/error.h>

#if PENSTOCK_HAVE_RE2
#include <re2/re2.h>
#endif

namespace penstock {
namespace {

[[noreturn]] void refuse(const std::string& regex, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "the label expression '" + regex + "' " + why);
}

}  // namespace

#if PENSTOCK_HAVE_RE2

struct LabelRule::Expression {
  explicit Expression(const std::string& regex) : compiled(regex, options()) {}
  static RE2::Options options() {
    constexpr std::int64_t kMostMemory = 1 << 20;
    RE2::Options options(RE2::Latin1);  // names are bytes
    options.set_log_errors(false);
    options.set_max_mem(kMostMemory);
    return options;
  }
  std::optional<std::string> group_of(std::string_view text) const {
    std::array<re2::StringPiece, 2> match;
    if (!compiled.Match({text.data(), text.size()}, 0, text.size(), RE2::UNANCHORED, match.data(),
                        match.size()))
      return std::nullopt;
    return std::string(match[1].data(), match[1].size());
  }

  const RE2 compiled;
};

LabelRule::LabelRule(const std::string& regex) {
  if (regex.empty()) return;
  if (regex.size() > kLongest)
    throw Error(ErrorCode::invalid_argument,
                "a label expression has " + std::to_string(regex.size()) +
                    " bytes, more than the " + std::to_string(kLongest) + " that it may have");
  auto expression = std::make_shared<const Expression>(regex);
  const RE2& compiled = expression->compiled;
  if (!compiled.ok())
    refuse(regex,
           "is not understood: " + compiled.error() +
               " (the syntax is that of RE2, which has no look-around and no back-references)");
  if (const int groups = compiled.NumberOfCapturingGroups(); groups != 1)
    refuse(regex, "must have one group, not " + std::to_string(groups));
  expression_ = std::move(expression);
  whole_path_ = regex.find('/') != std::string::npos;
}

#else

struct LabelRule::Expression {
  static std::optional<std::string> group_of(std::string_view /*text*/) { return std::nullopt; }
};

LabelRule::LabelRule(const std::string& regex) {
  if (!regex.empty()) refuse(regex, "can't be used: this build of Penstock has no RE2 (libre2)");
}

#endif

std::optional<std::string> LabelRule::text(std::string_view path) const {
  const std::size_t slash = path.rfind('/');
  if (!expression_) {
    if (slash == std::string_view::npos) return ".";
    const std::string_view folder = path.substr(0, slash);
    return std::string(folder.substr(folder.rfind('/') + 1));
  }
  if (!whole_path_ && slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return expression_->group_of(path);
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
