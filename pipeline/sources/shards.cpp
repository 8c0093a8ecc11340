#include "pipeline/sources/shards.h"
#include "pipeline/sources/contents.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <sys/resource.h>

#include <penstock/internal/find_files.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>

#include "pipeline/sources/mapping.h"
#include "pipeline/sources/parallel.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

std::size_t default_max_open() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 1, 1024);
}

constexpr std::size_t kMostListed = 20;

std::vector<std::string> expanded(FileSystem& files, const std::vector<std::string>& patterns) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    const auto words = made_patiently([&] { return expand_pattern(files, pattern); });
    all.insert(all.end(), words.begin(), words.end());
  }
  return all;
}

/// Returns the facts of each path, and nothing for those that are missing. Asks servers for many at
/// once.
std::vector<std::optional<FileInfo>> infos_of(FileSystem& files,
                                              const std::vector<std::string>& paths) {
  constexpr std::size_t kAskedAtOnce = 16;
  std::vector<std::optional<FileInfo>> infos(paths.size());
  const auto ask = [&](std::size_t i) {
    try {
      infos[i] = files.info(paths[i]);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
    }
  };
  if (paths.size() > 1 && is_remote(paths.front())) {
    for_each_parallel(paths.size(), ask, kAskedAtOnce);
  } else {
    for (std::size_t i = 0; i < paths.size(); ++i) patiently([&] { ask(i); });
  }
  return infos;
}

OpenShard open_shard(FileSystem& files, const std::string& path, const FileInfo& found) {
  OpenShard open;
  try {
    open.file = files.open(path);
  } catch (const Error& error) {
    // It was there when the shards were listed. A folder or a pipe still is.
    if (error.code() == ErrorCode::not_found && !infos_of(files, {path}).front())
      throw removed_error(path);
    throw;
  }
  if (open.file->info() != found) throw changed_error(path);
  if (!open.file->mapped().empty()) open.mapping = BufferPtr(new Mapping(open.file, found));
  return open;
}

}  // namespace

Shards::Shards(FileSystemPtr files, const std::vector<std::string>& patterns, std::size_t max_open,
               bool hidden)
    : files_(files != nullptr ? std::move(files) : default_file_system()),
      max_open_(max_open > 0 ? max_open : default_max_open()) {
  std::vector<std::string> missing;
  for (const std::string& pattern : expanded(*files_, patterns)) {
    std::vector<std::string> paths;
    patiently([&] { paths = files_->glob(pattern, hidden); });
    if (paths.empty()) missing.push_back("no file matches " + hide_secrets(pattern));
    const std::vector<std::optional<FileInfo>> infos = infos_of(*files_, paths);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (infos[i]) {
        shards_.push_back({paths[i], *infos[i]});
      } else {
        missing.push_back(missing_text(paths[i]));
      }
    }
  }
  if (!missing.empty()) {
    std::string text;
    for (std::size_t i = 0; i < std::min(missing.size(), kMostListed); ++i)
      text += (i > 0 ? "; " : "") + missing[i];
    if (missing.size() > kMostListed)
      text += "; and " + std::to_string(missing.size() - kMostListed) + " more";
    throw Error(ErrorCode::not_found, text);
  }
  if (shards_.empty()) throw Error(ErrorCode::invalid_argument, "no file is given");
  const MutexLock lock(mutex_);
  open_.resize(shards_.size());
  last_use_.resize(shards_.size());
}

OpenShard Shards::open(std::size_t shard) const {
  {
    const MutexLock lock(mutex_);
    last_use_[shard] = ++uses_;
    if (open_[shard].file != nullptr) return open_[shard];
  }
  OpenShard opened;
  for (int tries = 1; opened.file == nullptr;) {
    try {
      opened = open_shard(*files_, shards_[shard].path, shards_[shard].info);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      // Other threads may have files open for a moment, to read or to map them. They soon close
      // them.
      if (!keep_fewer_open() && !try_again({}, tries++)) throw;
    }
  }
  std::vector<OpenShard> closed;
  const MutexLock lock(mutex_);
  if (open_[shard].file != nullptr) return open_[shard];
  while (open_count_ >= max_open_) closed.push_back(take_oldest());
  open_[shard] = opened;
  ++open_count_;
  return opened;
}

void Shards::check(std::size_t shard, const File& file, bool trust_data) const {
  check_unchanged(path(shard), info(shard), file.now(), trust_data);
}

void Shards::describe(Description& description,
                      const std::function<std::uint64_t(std::size_t)>& checksum) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const std::uint64_t both[2] = {version_of(path(i), info(i)), checksum ? checksum(i) : 0};
    description.add_shard(base_name(path(i)), info(i).size,
                          both[0] == 0 ? both[1] : XXH3_64bits(both, sizeof(both)) | 1U);
  }
  if (!description.wants_contents()) return;
  const auto name = [this](std::size_t i) { return base_name(path(i)); };
  if (size() > description.most_files())
    return describe_some_contents(description, *files_, listed(), name);
  const std::vector<std::uint64_t>& hashes = contents();
  describe_contents(description, size(), name, [&](std::size_t i) { return hashes[i]; });
}

ListedFiles Shards::listed() const {
  return {.count = size(),
          .path = [this](std::size_t i) { return path(i); },
          .info = [this](std::size_t i) { return info(i); }};
}

const std::vector<std::uint64_t>& Shards::contents() const {
  std::call_once(contents_once_, [this] { contents_ = hash_contents(*files_, listed()); });
  return contents_;
}

bool Shards::keep_fewer_open() const {
  std::vector<OpenShard> closed;
  {
    const MutexLock lock(mutex_);
    if (open_count_ == 0) return false;
    max_open_ = std::max<std::size_t>(1, open_count_ / 2);
    while (open_count_ >= max_open_ && open_count_ > 0) closed.push_back(take_oldest());
  }
  log_once(LogLevel::warning, "shards kept open",
           "out of file descriptors (RLIMIT_NOFILE): keeping fewer shards open");
  return true;
}

OpenShard Shards::take_oldest() const {
  std::size_t oldest = open_.size();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (open_[i].file == nullptr) continue;
    if (oldest == open_.size() || last_use_[i] < last_use_[oldest]) oldest = i;
  }
  --open_count_;
  return std::exchange(open_[oldest], {});
}

Error refused(const std::string& path, const std::string& what) {
  return Error(ErrorCode::invalid_argument, what, {.shard = path, .stage = {}});
}

std::string base_name(const std::string& path) {
  // A query is not part of a name: where URLs are signed, it differs in each run.
  const std::string_view name = without_query(path);
  return std::string(name.substr(name.rfind('/') + 1));
}

}  // namespace penstock
