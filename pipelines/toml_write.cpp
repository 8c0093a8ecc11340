#include <array>
#include <charconv>
#include <cstdio>

#include "pipelines/pipeline_spec.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

/// Returns the text as a basic string, with the escapes of TOML 1.0.
std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_number(double value) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string out(text.data(), end);
  if (out.find_first_of(".e") == out.npos) out += ".0";
  return out;
}

std::string toml_value(const Parameter& parameter, const Value& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    const std::string text = exact_bytes(*integer);
    const bool unit = parameter.type == ValueType::bytes && text.back() == 'B';
    return unit ? toml_text(text) : std::to_string(*integer);
  }
  if (const auto* number = std::get_if<double>(&value)) return toml_number(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return toml_text(*text);
  if (const auto* extent = std::get_if<Extent>(&value))
    return extent->width == 0 ? to_string(*extent) : toml_text(to_string(*extent));
  std::string out;
  for (const std::string& item : std::get<List>(value))
    out += (out.empty() ? "" : ", ") + toml_text(item);
  return "[" + out + "]";
}

std::string body(const Settings& settings) {
  std::string out;
  for (const auto& [parameter, value] : settings.given())
    out += parameter->name + " = " + toml_value(*parameter, value) + "\n";
  return out;
}

}  // namespace

std::string to_toml(const PipelineSpec& spec) {
  std::string out;
  if (spec.source)
    out += "[source]\nkind = " + toml_text(spec.source->kind().name) + "\n" + body(*spec.source);
  for (const Settings& stage : spec.stages)
    out += "\n[[stages]]\nkind = " + toml_text(stage.kind().name) + "\n" + body(stage);
  const std::string run = body(spec.run);
  if (!run.empty()) out += "\n[run]\n" + run;
  return out;
}

}  // namespace penstock::tool
