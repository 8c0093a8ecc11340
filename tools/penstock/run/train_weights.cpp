#include "tools/penstock/run/train_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include <penstock/element.h>
#include <penstock/error.h>
#include <penstock/internal/other_format.h>
#include <penstock/map.h>
#include <penstock/towers/model.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"
#include "towers/classes.h"
#include "towers/one_number.h"

namespace penstock::tool {
namespace {

std::optional<double> parsed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double weight_in(const std::string& text) {
  const std::optional<double> weight = parsed(text);
  if (!weight || !std::isfinite(*weight) || *weight < 0)
    throw UsageError("a weight must be a finite number, 0 or more, not " + in_quotes(text));
  return *weight;
}

std::string name_of(std::int64_t label, const std::vector<std::string>& classes) {
  return classes.empty() ? std::to_string(label) : classes.at(static_cast<std::size_t>(label));
}

std::vector<towers::ClassWeight> balanced(const Dataset& stored, const RunOptions& options,
                                          const std::vector<std::string>& classes) {
  const int at = stored.spec().find("label");
  if (at < 0 || !towers::is_integer(stored.spec()[static_cast<std::size_t>(at)].dtype))
    throw UsageError("the data have no labels to count");
  RunOptions counting = options;
  counting.quarantine.clear();  // training writes the quarantine file
  counting.epochs = 1;
  std::map<std::int64_t, std::int64_t> rows_of;
  std::int64_t rows = 0;
  for (const Element& element : stored.iterate(counting)) {
    ++rows_of[towers::integer_in(element["label"])];
    ++rows;
  }
  std::vector<towers::ClassWeight> weights;
  for (const auto& [label, count] : rows_of) {
    if (label < 0 || (!classes.empty() && label >= static_cast<std::int64_t>(classes.size())))
      throw Error(ErrorCode::mismatch,
                  "label " + std::to_string(label) + " is not one of the classes");
    weights.push_back({name_of(label, classes),
                       static_cast<double>(rows) /
                           (static_cast<double>(rows_of.size()) * static_cast<double>(count))});
  }
  return weights;
}

/// Takes a field in quotes, in which "" stands for a quote, off the front of `line`. Returns
/// nothing if there is none.
std::optional<std::string> take_quoted(std::string_view& line) {
  if (!line.starts_with('"')) return std::nullopt;
  std::string field;
  for (std::size_t at = 1; at < line.size(); ++at) {
    if (line[at] == '"' && !line.substr(at + 1).starts_with('"')) {
      line.remove_prefix(at + 1);
      return field;
    }
    if (line[at] == '"') ++at;
    field += line[at];
  }
  return std::nullopt;
}

struct NamedWeight {
  std::string name{};
  std::string weight{};
};

/// Splits NAME,WEIGHT, both of which may have quotes as in CSV. A name without quotes may have
/// commas.
std::optional<NamedWeight> split_weight(std::string_view line) {
  NamedWeight parts;
  if (line.starts_with('"')) {
    std::optional<std::string> name = take_quoted(line);
    if (!name || !line.starts_with(',')) return std::nullopt;
    parts.name = *std::move(name);
    line.remove_prefix(1);
  } else {
    const std::size_t comma = line.rfind(',');
    if (comma == line.npos) return std::nullopt;
    parts.name = line.substr(0, comma);
    line.remove_prefix(comma + 1);
  }
  if (parts.name.empty()) return std::nullopt;
  parts.weight = line;
  std::string_view rest = line;
  if (std::optional<std::string> weight = take_quoted(rest); weight && rest.empty())
    parts.weight = *std::move(weight);
  return parts;
}

std::vector<towers::ClassWeight> weights_in_file(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw UsageError("expected \"balanced\", numbers such as 1,2.5,1, or a readable file, got " +
                     in_quotes(path));
  const std::string text{std::istreambuf_iterator<char>(in), {}};  // a pipe is read once
  const auto head = std::as_bytes(std::span(text).first(std::min(text.size(), kOtherFormatHead)));
  if (const OtherFormat* const other = find_other_format(head, text.size()))
    throw UsageError(path + " is " + other->text());
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::vector<towers::ClassWeight> weights;
  std::set<std::string> seen;
  std::size_t number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (++number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    const auto where = [&] { return " (" + path + ":" + std::to_string(number) + ")"; };
    const std::optional<NamedWeight> parts = split_weight(line);
    if (!parts) throw UsageError("expected NAME,WEIGHT, got " + in_quotes(line) + where());
    const std::string& name = parts->name;
    if (!seen.insert(name).second) throw UsageError("class " + name + " has two weights" + where());
    try {
      weights.push_back({name, weight_in(parts->weight)});
    } catch (const UsageError& error) {
      throw UsageError(error.what() + where());
    }
  }
  if (weights.empty()) throw UsageError("there are no weights in " + path);
  return weights;
}

}  // namespace

Dataset with_weight_column(const Dataset& stored, const std::string& column) {
  const int at = stored.spec().find(column);
  if (at < 0)
    throw UsageError("the data have no column " + in_quotes(column) + ", but " +
                     stored.spec().to_string());
  const ComponentSpec& spec = stored.spec()[static_cast<std::size_t>(at)];
  const bool number = towers::is_integer(spec.dtype) || spec.dtype == DType::f32 ||
                      spec.dtype == DType::f64 || spec.dtype == DType::bytes;
  if (spec.shape.rank() != 0 || !number)
    throw UsageError("column " + in_quotes(column) +
                     " is not a single number per row: " + stored.spec().to_string());
  const bool text = spec.dtype == DType::bytes;
  return stored.map(
      [column, text](const Element& in) -> float {
        const Tensor& value = in[column];
        if (!text) return static_cast<float>(towers::number_in(value));
        const std::optional<double> weight = parsed(value.bytes_at());
        if (!weight)
          throw Error(ErrorCode::mismatch, "column " + column + " must have numbers, not " +
                                               in_quotes(std::string(value.bytes_at())));
        return static_cast<float>(*weight);
      },
      {.name = "weight", .adds = {{towers::kWeight, DType::f32, {}}}});
}

std::vector<towers::ClassWeight> parse_class_weights(const std::string& text, const Dataset& stored,
                                                     const RunOptions& options) {
  const std::vector<std::string> classes = towers::classes_of(stored);
  if (text == "balanced") return balanced(stored, options, classes);
  const std::vector<std::string> parts = split(text, ',');
  const auto is_number = [](const std::string& part) { return parsed(part).has_value(); };
  if (!std::ranges::all_of(parts, is_number)) return weights_in_file(text);
  if (!classes.empty() && parts.size() != classes.size())
    throw UsageError("got " + std::to_string(parts.size()) + " weights for " +
                     std::to_string(classes.size()) + " classes");
  std::vector<towers::ClassWeight> weights;
  for (const std::string& part : parts)
    weights.push_back(
        {name_of(static_cast<std::int64_t>(weights.size()), classes), weight_in(part)});
  return weights;
}

}  // namespace penstock::tool
