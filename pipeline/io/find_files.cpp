#include <penstock/internal/find_files.h>

#include <algorithm>
#include <iterator>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "pipeline/io/pattern.h"
#include "pipeline/io/url.h"

namespace penstock {
namespace {

constexpr std::ptrdiff_t kMostPatterns = 10'000;
constexpr std::size_t kMostNamed = 20;

bool exists(FileSystem& files, const std::string& path) {
  try {
    if (files.is_directory(path)) return true;
    files.info(path);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return false;
  }
}

/// True if a store says that it has this object. It may refuse to say so for one that it lacks.
bool is_object(FileSystem& files, const std::string& path) {
  try {
    files.info(path);
    return true;
  } catch (const Error&) {  // opening what the pattern stands for reports it
    return false;
  }
}

/// True if there is something at a path, or for one of the patterns that it stands for.
bool has_match(FileSystem& files, const std::string& path) {
  try {
    return std::ranges::any_of(expand_pattern(files, path), [&](const std::string& one) {
      if (!has_pattern(one)) return exists(files, one);
      bool found = false;
      files.glob_each(one, false, [&](const std::string&) { found = true; });
      return found;
    });
  } catch (const Error&) {
    return false;  // opening the path reports the error
  }
}

/// Returns the parts of a text between commas that are not within braces.
std::vector<std::string_view> split_outside_braces(std::string_view text) {
  std::vector<std::size_t> commas;
  std::vector<std::size_t> open;  // number of commas in front of each open brace
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') commas.push_back(i);
    if (text[i] == '{') open.push_back(commas.size());
    if (text[i] != '}' || open.empty()) continue;
    commas.resize(open.back());
    open.pop_back();
  }
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  for (const std::size_t comma : commas) {
    parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

}  // namespace

std::vector<std::string> expand_pattern(FileSystem& files, const std::string& pattern) {
  std::vector<std::string> patterns = expand_braces(pattern);
  // Each of them is looked for in folders.
  if (std::ranges::count_if(patterns, has_pattern) > kMostPatterns)
    throw Error(ErrorCode::out_of_range,
                "its braces expand to more than " + std::to_string(kMostPatterns) + " patterns",
                {.shard = hide_secrets(pattern)});
  if (patterns.size() == 1 && patterns.front() == pattern) return patterns;
  if (!is_remote(pattern) && exists(files, pattern)) return {pattern};
  if ((http::is_s3(pattern) || http::is_gs(pattern)) && is_object(files, pattern)) return {pattern};
  return patterns;
}

std::vector<std::string> find_files(FileSystem& files, const std::string& pattern, bool hidden) {
  std::vector<std::string> found;
  std::string missing;
  std::size_t missing_count = 0;
  for (const std::string& one : expand_pattern(files, pattern)) {
    std::vector<std::string> paths = files.glob(one, hidden);
    if (paths.empty() && ++missing_count <= kMostNamed)
      missing += (missing.empty() ? "no file matches " : ", ") + hide_secrets(one);
    found.insert(found.end(), std::make_move_iterator(paths.begin()),
                 std::make_move_iterator(paths.end()));
  }
  if (missing_count > kMostNamed)
    missing += " and " + std::to_string(missing_count - kMostNamed) + " more";
  if (!missing.empty()) throw Error(ErrorCode::not_found, missing);
  return found;
}

std::vector<std::string> split_paths(FileSystem& files, std::string_view text) {
  constexpr std::ptrdiff_t kLongest = 4096;  // PATH_MAX
  const std::vector<std::string_view> parts = split_outside_braces(text);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t end = parts.size();
    for (; end > i + 1; --end) {
      const std::string_view last = parts[end - 1];
      const char* const begin = parts[i].data();
      if (is_remote(last) || last.data() + last.size() - begin > kLongest) continue;
      const std::string path(begin, last.data() + last.size());
      if (has_match(files, path)) break;
    }
    const std::string_view last = parts[end - 1];
    paths.emplace_back(parts[i].data(), last.data() + last.size());
    i = end;
  }
  return paths;
}

bool is_hidden(std::string_view path, std::string_view folder) {
  // A server may write the folder's URL in another way, but its parts stay as many.
  auto above = std::ranges::count(folder, '/');
  if (!folder.empty() && folder.back() != '/') ++above;
  for (; above > 0; --above) path.remove_prefix(path.find('/') + 1);
  return path.starts_with('.') || path.find("/.") != path.npos;
}

}  // namespace penstock
