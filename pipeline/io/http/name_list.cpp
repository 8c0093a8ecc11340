#include "pipeline/io/http/name_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "pipeline/io/http/url.h"

namespace penstock::http {
namespace {

constexpr std::size_t kMostNames = 10'000'000;
constexpr std::size_t kMostExpanded = 1'000'000;

std::optional<std::uint64_t> whole_number(std::string_view digits) noexcept {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

[[noreturn]] void too_many(const std::string& pattern) {
  throw Error(ErrorCode::out_of_range, "its braces stand for too many names", {.shard = pattern});
}

/// Returns the alternatives between two braces, one by one; nothing if the braces have no meaning.
std::vector<std::string> choices_of(std::string_view inside, const std::string& pattern) {
  std::vector<std::string> choices;
  if (const std::size_t dots = inside.find(".."); dots != inside.npos) {
    const std::string_view from = inside.substr(0, dots);
    const auto first = whole_number(from);
    const auto last = whole_number(inside.substr(dots + 2));
    if (!first || !last || *first > *last) return {};
    if (*last - *first >= kMostExpanded) too_many(pattern);
    for (std::uint64_t n = *first; n <= *last; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < from.size()) digits.insert(0, from.size() - digits.size(), '0');
      choices.push_back(std::move(digits));
    }
    return choices;
  }
  if (inside.find(',') == inside.npos) return {};
  for (std::size_t from = 0; from <= inside.size();) {
    const std::size_t to = std::min(inside.find(',', from), inside.size());
    choices.emplace_back(inside.substr(from, to - from));
    from = to + 1;
  }
  return choices;
}

}  // namespace

std::vector<std::string> parse_name_list(std::string_view text, const std::string& list) {
  std::vector<std::string> names;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (names.size() == kMostNames)
      throw Error(ErrorCode::out_of_range, "the list has more than ten million names",
                  {.shard = list});
    try {
      if (!is_http(line) && !is_http(list))
        throw Error(ErrorCode::invalid_argument,
                    "in a list on this machine every name is a URL, and this is none");
      const Url url = is_http(line) ? parse_url(line) : resolve(parse_url(list), line);
      const bool secret = !url.query.empty() || !url.userinfo.empty();
      names.push_back(secret ? hide_secrets(std::string(line)) : url.shown());
    } catch (const Error& error) {
      throw Error(error.code(), "line " + std::to_string(number) + " of the list: " + error.cause(),
                  {.shard = list});
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> done{std::string()};
  const std::size_t query = std::min(pattern.find('?'), pattern.size());
  std::size_t at = 0;
  while (at < query) {
    const std::size_t open = std::min(pattern.find('{', at), query);
    const std::size_t close = open < query ? pattern.find('}', open) : pattern.npos;
    if (close >= query) break;
    const std::string_view inside = std::string_view(pattern).substr(open + 1, close - open - 1);
    std::vector<std::string> choices = choices_of(inside, pattern);
    if (choices.empty()) choices.emplace_back("{" + std::string(inside) + "}");
    if (done.size() * choices.size() > kMostExpanded) too_many(pattern);
    std::vector<std::string> longer;
    for (const std::string& one : done)
      for (const std::string& choice : choices)
        longer.push_back(one + pattern.substr(at, open - at) + choice);
    done = std::move(longer);
    at = close + 1;
  }
  for (std::string& one : done) one += pattern.substr(at);
  return done;
}

bool is_url_pattern(std::string_view url) noexcept {
  const std::size_t host = url.find("://");
  const std::size_t path = host == url.npos ? 0 : url.find('/', host + 3);
  if (path == url.npos) return false;
  return url.substr(path, url.find('?') - path).find_first_of("*[") != url.npos;
}

}  // namespace penstock::http
