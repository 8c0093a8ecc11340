// Prints the tables of sources and stages as text.
#include "pipelines/kinds.h"
#include "pipelines/text.h"

namespace penstock::tool {
namespace {

const char* text_of(ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return "true or false";
    case ValueType::integer:
      return "integer";
    case ValueType::bytes:
      return "integer, or string such as \"96MiB\"";
    case ValueType::number:
      return "number";
    case ValueType::text:
      return "text";
    case ValueType::budget:
      return "integer, or string such as \"1%\"";
    case ValueType::extent:
      return "integer, or \"HxW\"";
    case ValueType::list:
      return "list of strings, or one";
  }
  return "";
}

void add_kinds(std::string& text, const std::vector<Kind>& kinds) {
  for (const Kind& kind : kinds) {
    text += "\n" + kind.name + ": " + kind.help + "\n";
    for (const Parameter& parameter : kind.parameters) {
      text += "  " + parameter.name + (parameter.required ? "" : " [optional]") + ": ";
      text += parameter.choices.empty() ? text_of(parameter.type)
                                        : "one of " + join(parameter.choices, ", ");
      text += parameter.help.empty() ? "\n" : "; " + parameter.help + "\n";
    }
  }
}

}  // namespace

std::string kinds_text() {
  std::string text = "Sources, [source]:\n";
  add_kinds(text, source_kinds());
  text += "\nStages, [[stages]]:\n";
  add_kinds(text, stage_kinds());
  return text;
}

}  // namespace penstock::tool
