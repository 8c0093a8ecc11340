// Reads TOML, and gives the place of a node for error messages.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

// toml++ asserts conditions that some texts break, for example "[=". With NDEBUG, it even tells
// Clang to assume them. An exception in place of the assertion makes such texts an ordinary error.
namespace penstock::tool {
[[noreturn]] inline void refuse_text() {
  throw std::logic_error("not TOML");
}
}  // namespace penstock::tool
#undef NDEBUG
#define TOML_ASSERT(holds) ((holds) ? static_cast<void>(0) : ::penstock::tool::refuse_text())
#include <toml++/toml.h>

#include "pipelines/text.h"
#include "pipelines/usage_error.h"

namespace penstock::tool {

/// The place of a node: its file and its path in that file.
struct TomlPlace {
  const std::string& file;
  std::string path;

  std::string at(const toml::node& node) const {
    const auto line = node.source().begin.line;
    return printable(file) + (line > 0 ? ":" + std::to_string(line) : "") +
           (path.empty() ? "" : " " + path);
  }
  TomlPlace child(std::string_view key) const {
    return {file, (path.empty() ? "" : path + ".") + printable(key)};
  }
  TomlPlace item(std::size_t index) const {
    return {file, path + "[" + std::to_string(index) + "]"};
  }
};

/// Returns the type of a node for error messages: "a table", "an integer".
std::string_view toml_type(const toml::node& node);

template <typename T>
const T& as(const toml::node* node, std::string_view expected, const TomlPlace& place) {
  if (const T* value = node->as<T>()) return *value;
  throw UsageError("expected " + std::string(expected) + ", got " + std::string(toml_type(*node)),
                   place.at(*node));
}

/// The largest text that is parsed. Much more than a pipeline needs, and little enough that what a
/// stranger sends costs neither memory nor time.
inline constexpr std::size_t kMostTomlBytes = 1 << 20;
/// Parses a text. Throws UsageError with the line of the first mistake if the text is not TOML, if
/// it is longer than kMostTomlBytes, or if a key has more than 100 dots.
toml::table parse_toml(const std::string& text, const std::string& name);
/// Reads a file of at most 1 MiB. Throws the errors of `error_from_errno`, and UsageError for a
/// longer file. `what` names the file's contents in them, for example "the pipeline".
std::string read_toml_text(const std::string& path, const std::string& what);

}  // namespace penstock::tool
