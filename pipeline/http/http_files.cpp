#include "pipeline/http/http_files.h"

#include <algorithm>

#include <penstock/error.h>

#include "pipeline/http/name_list.h"
#include "pipeline/io/pattern.h"
#include "pipeline/io/pread.h"
#include "pipeline/io/secrets.h"

namespace penstock::http {
namespace {

constexpr std::size_t kMostListBytes = 256 << 20;

Error no_listing(const std::string& path) {
  return Error(ErrorCode::invalid_argument,
               "HTTP can't list folders: name the files in a list (--remote-list), or by numbers, "
               "as in {000..127}",
               {.shard = path});
}

Error no_writing(const std::string& path) {
  return Error(
      ErrorCode::invalid_argument,
      "can't write: HTTP has no atomic writes; name an object on s3:// or gs://, or a local file",
      {.shard = hide_secrets(path)});
}

std::string as_folder_url(const std::string& path) {
  const std::string shown = parse_url(path).shown();
  return shown.ends_with('/') ? shown : shown + '/';
}

}  // namespace

Url HttpFileSystem::url_of(const std::string& path) const {
  return reveal(path);
}

const std::vector<std::string>& HttpFileSystem::names(const std::string& asked) {
  const std::string& list = client().options().list;
  if (list.empty()) throw no_listing(asked);
  {
    const MutexLock lock(mutex_);
    if (names_) return *names_;
  }
  std::string text;
  const std::string shown = hide_secrets(list);
  if (is_remote(list)) {
    text = client().get_whole(shown, reveal(shown), kMostListBytes);
  } else {
    const auto bytes = PreadFileSystem().open(list)->read_all(kMostListBytes);
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::vector<std::string> names = parse_name_list(text, shown);
  const MutexLock lock(mutex_);
  if (!names_) names_ = std::move(names);
  return *names_;
}

bool HttpFileSystem::is_directory(const std::string& path) {
  const bool looks_so = parse_url(path).path.ends_with('/');
  if (client().options().list.empty()) {
    if (looks_so) throw no_listing(path);
    return false;
  }
  const std::string folder = as_folder_url(path);
  const std::vector<std::string>& all = names(path);
  const auto found = std::lower_bound(all.begin(), all.end(), folder);
  return found != all.end() && found->starts_with(folder);
}

std::vector<std::string> HttpFileSystem::list(const std::string& folder) {
  const std::string prefix = as_folder_url(folder);
  std::vector<std::string> found;
  for (const std::string& name : names(folder))
    if (name.starts_with(prefix)) found.push_back(name);
  if (found.empty())
    throw Error(ErrorCode::not_found, "the list has no files below it", {.shard = folder});
  return found;
}

std::unique_ptr<WritableFile> HttpFileSystem::create(const std::string& path) {
  throw no_writing(path);
}

std::vector<std::string> HttpFileSystem::glob(const std::string& pattern, bool hidden) {
  if (!is_url_pattern(pattern)) return {hide_secrets(pattern)};
  const std::string shown = parse_url(pattern).shown();
  std::vector<std::string> found;
  for (const std::string& name : names(hide_secrets(pattern)))
    if (matches(shown, name, hidden)) found.push_back(name);
  return found;
}

}  // namespace penstock::http
