#include "pipelines/toml.h"

#include <fstream>

#include <penstock/posix.h>

namespace penstock::tool {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

toml::table parse_as_is(const std::string& text, const std::string& name) {
  try {
    // Passes no name: toml++ would copy it in a place that cannot report a lack of memory.
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(printable(error.description()),
                     printable(name) + ":" + std::to_string(error.source().begin.line) +
                         " column " + std::to_string(error.source().begin.column));
  } catch (const std::logic_error&) {
    throw UsageError("this is not TOML", printable(name));
  }
}

}  // namespace

std::string_view toml_type(const toml::node& node) {
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

/// toml++ 3.3 has undefined behaviour for some characters that are not ASCII in places where TOML
/// does not allow them. So it first gets the text with a bar for each of these characters. Like
/// them, a bar is allowed only in strings and comments.
toml::table parse_toml(const std::string& text, const std::string& name) {
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

std::string read_toml_text(const std::string& path, const std::string& what) {
  constexpr std::size_t kMost = 1 << 20;
  refuse_scheme(path);
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) throw UsageError("can't read " + what, printable(path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMost) throw UsageError(what + " has at most 1 MiB", printable(path));
  return text;
}

}  // namespace penstock::tool
