#include "pipelines/settings.h"

#include <algorithm>

#include <penstock/remote_files.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

bool holds(ValueType type, const Value& value) noexcept {
  switch (type) {
    case ValueType::boolean:
      return std::holds_alternative<bool>(value);
    case ValueType::integer:
    case ValueType::bytes:
      return std::holds_alternative<std::int64_t>(value);
    case ValueType::number:
      return std::holds_alternative<double>(value);
    case ValueType::text:
    case ValueType::budget:
      return std::holds_alternative<std::string>(value);
    case ValueType::extent:
      return std::holds_alternative<Extent>(value);
    case ValueType::list:
      return std::holds_alternative<List>(value);
  }
  return false;
}

std::string limit_text(const Parameter& parameter, double limit) {
  if (parameter.type == ValueType::number) {
    std::string text = std::to_string(limit);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }
  return std::to_string(static_cast<std::int64_t>(limit));
}

void check_range(const Parameter& parameter, double value, const std::string& text) {
  if (value < parameter.least)
    throw UsageError(parameter.name + " must be at least " +
                     limit_text(parameter, parameter.least) + ", got " + text);
  if (value > parameter.most)
    throw UsageError(parameter.name + " must be at most " + limit_text(parameter, parameter.most) +
                     ", got " + text);
}

void check(const Parameter& parameter, const Value& value) {
  if (!holds(parameter.type, value))
    throw UsageError(parameter.name + " must be " + std::string(describe(parameter.type)));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    check_range(parameter, static_cast<double>(*integer), std::to_string(*integer));
  } else if (const auto* number = std::get_if<double>(&value)) {
    if (!(*number >= parameter.least && *number <= parameter.most))
      check_range(parameter, *number, limit_text(parameter, *number));
  } else if (const auto* extent = std::get_if<Extent>(&value)) {
    const int width = extent->width == 0 ? extent->height : extent->width;
    check_range(parameter, std::min(extent->height, width), to_string(*extent));
    check_range(parameter, std::max(extent->height, width), to_string(*extent));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    if (parameter.type == ValueType::budget) parse_error_budget(*text);
    if (text->find('\0') != text->npos) throw UsageError(parameter.name + " has a zero byte");
    const List& choices = parameter.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), *text) == choices.end())
      throw UsageError(parameter.name + " must be one of " + join(choices, ", ") + ", got " +
                       in_quotes(*text));
  } else if (const auto* list = std::get_if<List>(&value)) {
    for (const std::string& item : *list)
      if (item.empty() || item.find('\0') != item.npos)
        throw UsageError(parameter.name + " has an empty string or a zero byte");
    if (list->empty()) throw UsageError(parameter.name + " must not be empty");
  }
}

Value parse(ValueType type, std::string_view text) {
  switch (type) {
    case ValueType::boolean:
      return parse_boolean(text);
    case ValueType::integer:
      return parse_integer(text);
    case ValueType::bytes:
      return parse_bytes(text);
    case ValueType::number:
      return parse_number(text);
    case ValueType::extent:
      return parse_extent(text);
    case ValueType::list:
      return split(text, ',');
    case ValueType::text:
    case ValueType::budget:
      break;
  }
  return std::string(text);
}

}  // namespace

std::string_view describe(ValueType type) noexcept {
  switch (type) {
    case ValueType::boolean:
      return "true or false";
    case ValueType::integer:
      return "an integer";
    case ValueType::bytes:
      return "a number of bytes such as 4096 or \"96MiB\"";
    case ValueType::number:
      return "a number";
    case ValueType::text:
      return "a string";
    case ValueType::budget:
      return "a count such as 100 or a share such as \"1%\"";
    case ValueType::extent:
      return "a size such as 256 or \"375x500\"";
    case ValueType::list:
      return "a list of strings";
  }
  return "";
}

std::string Kind::flag() const {
  std::string text = "--" + name;
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool Kind::reads(Format format) const noexcept {
  return std::find(formats.begin(), formats.end(), format) != formats.end();
}

const Parameter* Kind::find(std::string_view parameter) const noexcept {
  for (const Parameter& candidate : parameters)
    if (candidate.name == parameter) return &candidate;
  return nullptr;
}

std::size_t Settings::require(std::string_view name) const {
  const Parameter* parameter = kind_->find(name);
  if (parameter != nullptr) return static_cast<std::size_t>(parameter - kind_->parameters.data());
  List known;
  for (const Parameter& candidate : kind_->parameters) known.push_back(candidate.name);
  throw UsageError(kind_->name + " has no parameter " + in_quotes(name) +
                   (known.empty() ? "; it takes none" : "; it takes " + join(known, ", ")) +
                   suggestion(name, known));
}

const Value* Settings::find(std::string_view name) const {
  const std::optional<Value>& value = values_[require(name)];
  return value ? &*value : nullptr;
}

bool Settings::has(std::string_view name) const {
  return find(name) != nullptr;
}

void Settings::set(std::string_view name, Value value) {
  const std::size_t i = require(name);
  const Parameter& parameter = kind_->parameters[i];
  if (const auto* integer = std::get_if<std::int64_t>(&value);
      integer != nullptr && parameter.type == ValueType::number)
    value = static_cast<double>(*integer);
  if (auto* const one = std::get_if<std::string>(&value)) *one = hide_secrets(*one);
  if (auto* const list = std::get_if<List>(&value))
    std::ranges::transform(*list, list->begin(), hide_secrets);
  check(parameter, value);
  values_[i] = std::move(value);
}

void Settings::set_text(std::string_view name, std::string_view text) {
  const Parameter& parameter = kind_->parameters[require(name)];
  Value value;
  try {
    value = parse(parameter.type, text);
  } catch (const UsageError& error) {
    throw UsageError(parameter.name + ": " + error.cause(), error.where());
  }
  set(name, std::move(value));
}

void Settings::set_positional(std::string_view text) {
  const std::vector<Parameter>& parameters = kind_->parameters;
  // A list divides itself, and the comma in a file's only name divides nothing.
  if (parameters.size() == 1 &&
      (parameters.front().type == ValueType::list || parameters.front().type == ValueType::text)) {
    const std::string name = parameters.front().name + "=";
    return set_text(parameters.front().name,
                    text.starts_with(name) ? text.substr(name.size()) : text);
  }
  std::size_t position = 0;
  bool named = false;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const Parameter* flag = kind_->find(part);
    if (equals != part.npos) {
      named = true;
      set_text(std::string_view(part).substr(0, equals), std::string_view(part).substr(equals + 1));
    } else if (flag != nullptr && flag->type == ValueType::boolean) {
      named = true;
      set(part, true);
    } else if (named) {
      throw UsageError("the value " + in_quotes(part) + " needs a name, as in name=value");
    } else if (position == kind_->parameters.size() ||
               kind_->parameters[position].type == ValueType::boolean) {
      throw UsageError(position == 0 ? "takes no value, got " + in_quotes(part)
                                     : "takes at most " + std::to_string(position) +
                                           " values, got another: " + in_quotes(part));
    } else {
      set_text(kind_->parameters[position++].name, part);
    }
  }
}

List Settings::paths() const {
  List paths;
  if (kind_->formats.empty()) return paths;
  const std::size_t count = kind_->form == FlagForm::parts ? values_.size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (!values_[i]) continue;
    if (const auto* list = std::get_if<List>(&*values_[i]))
      paths = *list;
    else
      paths.push_back(std::get<std::string>(*values_[i]));
  }
  return paths;
}

void Settings::require_all() const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Parameter& parameter = kind_->parameters[i];
    if (parameter.required && !values_[i])
      throw UsageError(kind_->name + " needs " + parameter.name + ": " +
                       std::string(describe(parameter.type)));
  }
}

std::vector<std::pair<const Parameter*, Value>> Settings::given() const {
  std::vector<std::pair<const Parameter*, Value>> out;
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i]) out.emplace_back(&kind_->parameters[i], *values_[i]);
  return out;
}

}  // namespace penstock::tool
