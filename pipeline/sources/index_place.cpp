#include "pipeline/sources/index_place.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>

#include <penstock/remote_files.h>

#include "pipeline/io/posix.h"
#include "pipeline/io/url.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

constexpr std::string_view kNowhere = "-";
constexpr std::string_view kBeside = "beside";
constexpr std::size_t kMostOfName = 100;  // bytes, as a name has 255 at most

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Returns true for files of this machine, and for objects of servers with a version. Of other
/// files, a later run can't know whether they are still the same.
bool is_kept_by_name(const std::string& shard, const FileInfo& info) {
  if (is_remote(shard)) return version_of(shard, info) != 0;
  try {
    return default_file_system()->info(shard) == info;
  } catch (const Error&) {
    return false;
  }
}

std::string name_beside(const std::string& shard) {
  const std::string name = base_name(shard);
  return shard.substr(0, shard.size() - name.size()) + '.' + name + ".penstock-index";
}

/// Returns a name of the shard that is the same in every run: the real path of a file, or a URL
/// without its query, which is different each time.
std::string lasting_name(const std::string& shard) {
  if (is_remote(shard)) return std::string(without_query(shard));
  std::error_code unknown;
  const std::filesystem::path path = std::filesystem::weakly_canonical(shard, unknown);
  return unknown ? shard : path.string();
}

std::string name_in(const std::string& folder, const std::string& shard) {
  const std::string key = lasting_name(shard);
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return folder + '/' + base_name(key).substr(0, kMostOfName) + '.' + digits.data() +
         ".penstock-index";
}

}  // namespace

std::string default_index_folder() {
  if (std::string said = environment("PENSTOCK_INDEX_DIR"); !said.empty()) return said;
  const std::string cache = environment("XDG_CACHE_HOME");
  if (cache.starts_with('/')) return cache + "/penstock";  // others are to be ignored, it says
  const std::string home = environment("HOME");
  return home.starts_with('/') ? home + "/.cache/penstock" : std::string(kNowhere);
}

std::string index_path(const std::string& shard, const FileInfo& info,
                       const IndexOptions& options) {
  if (info.size < options.least_cached_bytes) return {};
  const std::string folder = options.folder.empty() ? default_index_folder() : options.folder;
  if (folder == kNowhere) return {};
  const bool named = !options.folder.empty() && folder != kBeside;
  if (!named && !is_kept_by_name(shard, info)) return {};
  if (folder == kBeside && http::is_http(shard)) return {};  // nothing is written there
  return folder == kBeside ? name_beside(shard) : name_in(folder, shard);
}

std::string index_beside(const std::string& shard, const FileInfo& info,
                         const IndexOptions& options) {
  if (!options.folder.empty() || info.size < options.least_cached_bytes) return {};
  if (without_query(shard) != shard) return {};  // signed for that file alone
  return is_kept_by_name(shard, info) ? name_beside(shard) : std::string();
}

bool make_index_folder(const std::string& path) noexcept try {
  if (is_remote(path)) return true;
  const std::string folder = folder_of(path);
  refuse_scheme(folder);
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return true;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  return ::mkdir(folder.c_str(), 0700) == 0 || std::filesystem::is_directory(folder, error);
} catch (const std::exception&) {
  return false;
}

}  // namespace penstock
