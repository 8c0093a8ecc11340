#include <cmath>
#include <fstream>
#include <stdexcept>

// toml++ asserts what not every text keeps ("[=") and, where NDEBUG is set, has Clang rely on it.
namespace penstock::tool {
[[noreturn]] static void refuse_text() {
  throw std::logic_error("not TOML");
}
}  // namespace penstock::tool
#undef NDEBUG
#define TOML_ASSERT(holds) ((holds) ? static_cast<void>(0) : ::penstock::tool::refuse_text())
#include <toml++/toml.h>

#include "tools/penstock/graph/kinds.h"
#include "tools/penstock/graph/pipeline_spec.h"
#include "tools/penstock/support/text.h"
#include "tools/penstock/support/usage_error.h"

namespace penstock::tool {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// A node with its address in the file.
struct Place {
  const std::string& file;
  std::string path;

  std::string at(const toml::node& node) const {
    const auto line = node.source().begin.line;
    return printable(file) + (line > 0 ? ":" + std::to_string(line) : "") +
           (path.empty() ? "" : " " + path);
  }
  Place child(std::string_view key) const {
    return {file, (path.empty() ? "" : path + ".") + printable(key)};
  }
  Place item(std::size_t index) const { return {file, path + "[" + std::to_string(index) + "]"}; }
};

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

[[noreturn]] void fail_type(const Parameter& parameter, const toml::node& node,
                            const Place& place) {
  throw UsageError(
      "expected " + std::string(describe(parameter.type)) + ", got " + std::string(kind_of(node)),
      place.at(node));
}

List read_list(const Parameter& parameter, const toml::array& array, const Place& place) {
  List list;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const auto* text = array[i].as_string();
    if (text == nullptr)
      throw UsageError("expected a text, got " + std::string(kind_of(array[i])),
                       place.item(i).at(array[i]));
    list.push_back(text->get());
  }
  if (list.empty()) throw UsageError(parameter.name + " must not be empty", place.at(array));
  return list;
}

void read_value(Settings& settings, const Parameter& parameter, const toml::node& node,
                const Place& place) {
  const bool spelled = parameter.type == ValueType::bytes || parameter.type == ValueType::extent ||
                       parameter.type == ValueType::text || parameter.type == ValueType::budget;
  const bool counted = parameter.type == ValueType::budget || parameter.type == ValueType::extent;
  if (const auto* boolean = node.as_boolean()) {
    if (parameter.type != ValueType::boolean) fail_type(parameter, node, place);
    settings.set(parameter.name, boolean->get());
  } else if (const auto* integer = node.as_integer()) {
    if (counted) {
      settings.set_text(parameter.name, std::to_string(integer->get()));
    } else if (parameter.type == ValueType::integer || parameter.type == ValueType::bytes ||
               parameter.type == ValueType::number) {
      settings.set(parameter.name, Value(std::int64_t{integer->get()}));
    } else {
      fail_type(parameter, node, place);
    }
  } else if (const auto* number = node.as_floating_point()) {
    if (parameter.type != ValueType::number) fail_type(parameter, node, place);
    if (!std::isfinite(number->get())) throw UsageError("expected a finite number", place.at(node));
    settings.set(parameter.name, number->get());
  } else if (const auto* text = node.as_string()) {
    if (parameter.type == ValueType::list)
      settings.set(parameter.name, List{text->get()});
    else if (spelled)
      settings.set_text(parameter.name, text->get());
    else
      fail_type(parameter, node, place);
  } else if (const auto* array = node.as_array()) {
    if (parameter.type != ValueType::list) fail_type(parameter, node, place);
    settings.set(parameter.name, read_list(parameter, *array, place));
  } else {
    fail_type(parameter, node, place);
  }
}

void read_settings(Settings& settings, const toml::table& table, const Place& place,
                   std::string_view ignored = {}) {
  for (const auto& [key, node] : table) {
    if (!ignored.empty() && key.str() == ignored) continue;
    const Place here = place.child(key.str());
    try {
      const Parameter* parameter = settings.kind().find(key.str());
      if (parameter == nullptr) settings.has(key.str());  // throws, with what there is
      read_value(settings, *parameter, node, here);
    } catch (const UsageError& error) {
      throw error.at(here.at(node));
    }
  }
}

Settings read_kind(const std::vector<Kind>& kinds, std::string_view what, const toml::table& table,
                   const Place& place) {
  List known;
  for (const Kind& kind : kinds) known.push_back(kind.name);
  const toml::node* node = table.get("kind");
  if (node == nullptr)
    throw UsageError("a " + std::string(what) + " needs a kind: " + join(known, ", "),
                     place.at(table));
  const auto* name = node->as_string();
  if (name == nullptr)
    throw UsageError("expected a text, got " + std::string(kind_of(*node)),
                     place.child("kind").at(*node));
  const Kind* kind = find_kind(kinds, name->get());
  if (kind == nullptr)
    throw UsageError("there is no " + std::string(what) + " " + in_quotes(name->get()) +
                         "; there are " + join(known, ", ") + suggestion(name->get(), known),
                     place.child("kind").at(*node));
  Settings settings(*kind);
  read_settings(settings, table, place, "kind");
  try {
    settings.require_all();
  } catch (const UsageError& error) {
    throw error.at(place.at(table));
  }
  return settings;
}

template <typename T>
const T& as(const toml::node* node, std::string_view expected, const Place& place) {
  if (const T* value = node->as<T>()) return *value;
  throw UsageError("expected " + std::string(expected) + ", got " + std::string(kind_of(*node)),
                   place.at(*node));
}

toml::table parse_as_is(const std::string& text, const std::string& name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw UsageError(printable(error.description()),
                     printable(name) + ":" + std::to_string(error.source().begin.line) +
                         " column " + std::to_string(error.source().begin.column));
  } catch (const std::logic_error&) {
    throw UsageError("this is not TOML", printable(name));
  }
}

/// toml++ 3.3 does what the compiler likes with some characters beyond ASCII where none may stand.
/// So it first gets the text with all of them as bars, which like them are right in strings and
/// comments alone.
toml::table parse(const std::string& text, const std::string& name) {
  std::string barred;
  for (std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
       at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0)
      throw UsageError("this is not UTF-8", printable(name) + " byte " + std::to_string(at));
    barred += length == 1 ? text[at] : '|';
    at += length;
  }
  if (barred.size() != text.size()) parse_as_is(barred, name);
  return parse_as_is(text, name);
}

}  // namespace

PipelineSpec::PipelineSpec() : run(run_kind()) {}

PipelineSpec pipeline_from_toml(const std::string& text, const std::string& name) {
  const toml::table root = parse(text, name);
  const Place top{name, ""};
  PipelineSpec spec;
  for (const auto& [key, node] : root)
    if (key.str() != "source" && key.str() != "stages" && key.str() != "run")
      throw UsageError("unknown key " + in_quotes(key.str()) +
                           "; there are source, stages and run" +
                           suggestion(key.str(), {"source", "stages", "run"}),
                       top.child(key.str()).at(node));
  const toml::node* source = root.get("source");
  if (source == nullptr) throw UsageError("there is no table [source]", printable(name));
  spec.source =
      read_kind(source_kinds(), "source", as<toml::table>(source, "a table", top.child("source")),
                top.child("source"));
  if (const toml::node* node = root.get("stages")) {
    const Place place = top.child("stages");
    const auto& stages = as<toml::array>(node, "an array of tables", place);
    for (std::size_t i = 0; i < stages.size(); ++i)
      spec.stages.push_back(read_kind(stage_kinds(), "stage",
                                      as<toml::table>(&stages[i], "a table", place.item(i)),
                                      place.item(i)));
  }
  if (const toml::node* node = root.get("run"))
    read_settings(spec.run, as<toml::table>(node, "a table", top.child("run")), top.child("run"));
  return spec;
}

PipelineSpec load_pipeline(const std::string& path) {
  constexpr std::size_t kMost = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) throw UsageError("can't read the pipeline", printable(path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMost) throw UsageError("a pipeline has at most 1 MiB", printable(path));
  return pipeline_from_toml(text, path);
}

}  // namespace penstock::tool
