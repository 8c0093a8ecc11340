#include "pipelines/remote.h"

#include <algorithm>

#include <penstock/remote_files.h>

namespace penstock::tool {
namespace {

/// Returns the position of the next URL, at `from` or after it.
std::size_t next_url(const std::string& word, std::size_t from) {
  return std::min(word.find("http://", from), word.find("https://", from));
}

}  // namespace

void use_remote(const Settings& run) {
  RemoteOptions options;
  options.list = run.get("remote_list", std::string());
  options.connections = static_cast<std::size_t>(
      run.get("remote_connections", static_cast<std::int64_t>(options.connections)));
  options.retries =
      static_cast<int>(run.get("retries", static_cast<std::int64_t>(options.retries)));
  if (run.has("remote_timeout"))
    options.deadline =
        std::chrono::milliseconds(static_cast<std::int64_t>(1000 * run.get("remote_timeout", 0.0)));
  options.cache_dir = run.get("cache_dir", std::string());
  options.cache_bytes = static_cast<std::uint64_t>(
      run.get("cache_bytes", static_cast<std::int64_t>(options.cache_bytes)));
  options.insecure = run.get("insecure", false);
  options.s3_endpoint = run.get("s3_endpoint", std::string());
  options.s3_region = run.get("s3_region", std::string());
  options.s3_addressing = run.get("s3_addressing", std::string());
  options.requester_pays = run.get("requester_pays", false);
  options.s3_anonymous = run.get("s3_anonymous", false);
  options.trust_dates = run.get("trust_data", false);
  choose_remote(std::move(options));
}

std::string hidden_word(const std::string& word) {
  const auto starts = [&](std::size_t at) {
    return at == 0 || word[at - 1] == ',' || word[at - 1] == '=';
  };
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = next_url(word, 0); at != word.npos;) {
    std::size_t next = next_url(word, at + 1);
    while (next != word.npos && word[next - 1] != ',') next = next_url(word, next + 1);
    const std::size_t end = next == word.npos ? word.size() : next - 1;
    if (starts(at)) {
      out += word.substr(done, at - done) + hide_secrets(word.substr(at, end - at));
      done = end;
    }
    at = next;
  }
  return out + word.substr(done);
}

}  // namespace penstock::tool
