#include "pipelines/toml.h"

#include <cerrno>
#include <fstream>

#include <penstock/internal/posix.h>

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

/// Returns where a string that begins at `at` ends, behind its quotes.
std::size_t end_of_string(const std::string& text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool long_one = text.compare(at, 3, three) == 0;
  at += long_one ? 3 : 1;
  for (; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (long_one ? text.compare(at, 3, three) == 0 : text[at] == quote) {
      at += long_one ? 3 : 1;
      // Before its end, a long string may have two quotes of its own.
      for (int own = 0; long_one && own < 2 && at < text.size() && text[at] == quote; ++own) ++at;
      return at;
    } else if (!long_one && text[at] == '\n') {
      return at;  // no string of TOML
    }
  }
  return text.size();
}

/// Throws if a dotted key has too many parts. Each is a table within the last, and toml++ deletes
/// tables recursively.
void check_dots(const std::string& text, const std::string& name) {
  constexpr int kMostDots = 100;
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.' && ++dots > kMostDots)
      throw UsageError("a key has more than " + std::to_string(kMostDots) + " dots",
                       printable(name) + " byte " + std::to_string(at));
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') dots = 0;
    ++at;
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
      return "a string";
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
  if (text.size() > kMostTomlBytes)
    throw UsageError(
        "the text has " + std::to_string(text.size()) + " bytes, but can have at most 1 MiB",
        printable(name));
  check_dots(text, name);
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
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostTomlBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) throw error_from_errno(errno, "read " + what, path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostTomlBytes)
    throw UsageError(what + " can have at most 1 MiB", printable(path));
  return text;
}

}  // namespace penstock::tool
