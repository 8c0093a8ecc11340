#include "pipeline/http/name_list.h"

#include <algorithm>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "pipeline/io/url.h"

namespace penstock::http {
namespace {

constexpr std::size_t kMostNames = 10'000'000;

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
        throw Error(ErrorCode::invalid_argument, "every line of a local list must be a URL");
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

bool is_url_pattern(std::string_view url) noexcept {
  const std::size_t host = url.find("://");
  const std::size_t path = host == url.npos ? 0 : url.find('/', host + 3);
  if (path == url.npos) return false;
  return url.substr(path, url.find('?') - path).find_first_of("*[") != url.npos;
}

}  // namespace penstock::http
