#include <cmath>

#include "pipelines/kinds.h"
#include "pipelines/pipeline_spec.h"
#include "pipelines/text.h"
#include "pipelines/toml.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

[[noreturn]] void fail_type(const Parameter& parameter, const toml::node& node,
                            const TomlPlace& place) {
  throw UsageError(
      "expected " + std::string(describe(parameter.type)) + ", got " + std::string(toml_type(node)),
      place.at(node));
}

List read_list(const Parameter& parameter, const toml::array& array, const TomlPlace& place) {
  List list;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const auto* text = array[i].as_string();
    if (text == nullptr)
      throw UsageError("expected a string, got " + std::string(toml_type(array[i])),
                       place.item(i).at(array[i]));
    list.push_back(text->get());
  }
  if (list.empty()) throw UsageError(parameter.name + " must not be empty", place.at(array));
  return list;
}

void read_value(Settings& settings, const Parameter& parameter, const toml::node& node,
                const TomlPlace& place) {
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

void read_settings(Settings& settings, const toml::table& table, const TomlPlace& place,
                   std::string_view ignored = {}) {
  for (const auto& [key, node] : table) {
    if (!ignored.empty() && key.str() == ignored) continue;
    const TomlPlace here = place.child(key.str());
    try {
      const Parameter* parameter = settings.kind().find(key.str());
      if (parameter == nullptr) settings.has(key.str());  // throws, and lists known names
      read_value(settings, *parameter, node, here);
    } catch (const UsageError& error) {
      throw error.at(here.at(node));
    }
  }
}

Settings read_kind(const std::vector<Kind>& kinds, std::string_view what, const toml::table& table,
                   const TomlPlace& place) {
  List known;
  for (const Kind& kind : kinds) known.push_back(kind.name);
  const toml::node* node = table.get("kind");
  if (node == nullptr)
    throw UsageError("a " + std::string(what) + " needs a kind: " + join(known, ", "),
                     place.at(table));
  const auto* name = node->as_string();
  if (name == nullptr)
    throw UsageError("expected a string, got " + std::string(toml_type(*node)),
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

}  // namespace

PipelineSpec::PipelineSpec() : run(run_kind()) {}

PipelineSpec pipeline_from_toml(const std::string& text, const std::string& name) {
  const toml::table root = parse_toml(text, name);
  const TomlPlace top{name, ""};
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
    const TomlPlace place = top.child("stages");
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
  return pipeline_from_toml(read_toml_text(path, "the pipeline"), path);
}

}  // namespace penstock::tool
