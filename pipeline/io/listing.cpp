// PosixFileSystem::list and glob.
#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include <dirent.h>
#include <sys/stat.h>

#include <penstock/log.h>

#include "pipeline/io/pattern.h"
#include "pipeline/io/posix.h"

namespace penstock {
namespace {

enum class Kind { file, folder, other };

struct Child {
  std::string name;
  std::optional<Kind> kind;  // if the folder says so
};

struct CloseDir {
  void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};

using Inode = std::pair<dev_t, ino_t>;

/// What may be left out: an error for which a path counts as absent. Any other error might hide a
/// part of the data.
using LeftOut = bool (*)(int error, const std::string& path);

bool nothing(int /*error*/, const std::string& /*path*/) {
  return false;
}

/// True for a path without permission, such as lost+found. The log reports it.
bool forbidden(int error, const std::string& path) {
  if (error != EACCES && error != EPERM) return false;
  log_once(LogLevel::warning, "listing " + path,
           "left out what may not be read: " +
               std::string(error_from_errno(error, "list", path).what()));
  return true;
}

/// True also if `path` does not exist.
bool absent(int error, const std::string& path) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG ||
         forbidden(error, path);
}

/// Returns the kind of `path`. A dangling link counts as a file: opening it then reports that it is
/// missing.
Kind kind_of(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) {
    const int error = errno;
    if (!absent(error, path)) throw error_from_errno(error, "list", path);
    const bool link = error == ENOENT && ::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
    return link ? Kind::file : Kind::other;
  }
  return S_ISREG(st.st_mode) ? Kind::file : S_ISDIR(st.st_mode) ? Kind::folder : Kind::other;
}

std::string join(const std::string& folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder.back() == '/' ? folder + std::string(name) : folder + '/' + std::string(name);
}

std::vector<Child> children_of(const std::string& folder, LeftOut left_out) {
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.empty() ? "." : folder.c_str()));
  struct stat st;
  // Without permission to search the folder, its files can't be opened, although their names can be
  // read.
  if (dir == nullptr || ::fstatat(::dirfd(dir.get()), ".", &st, 0) != 0) {
    const int error = errno;
    if (left_out(error, folder)) return {};
    throw error_from_errno(error, "list", folder);
  }
  std::vector<Child> children;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) throw error_from_errno(errno, "list", folder);
      return children;
    }
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    std::optional<Kind> kind;
    if (entry->d_type == DT_REG) kind = Kind::file;
    if (entry->d_type == DT_DIR) kind = Kind::folder;
    children.push_back({std::move(name), kind});
  }
}

/// The folders that a walk visits. Links may lead to a folder in several ways, but not in circles.
class Visits {
 public:
  /// Calls `visit` unless the walk is inside of this folder. Throws Error{out_of_range} for too
  /// many ways to it.
  template <typename Visit>
  void of(const std::string& folder, LeftOut left_out, const Visit& visit) {
    struct stat st;
    if (::stat(folder.empty() ? "." : folder.c_str(), &st) != 0) {
      const int error = errno;
      if (left_out(error, folder)) return;
      throw error_from_errno(error, "list", folder);
    }
    Ways& ways = ways_[{st.st_dev, st.st_ino}];
    if (ways.under_way) return;
    if (++ways.count > kMostWays)
      throw Error(ErrorCode::out_of_range,
                  "links lead to this folder by more than " + std::to_string(kMostWays) +
                      " ways (folder_ways)",
                  {.shard = folder});
    ways.under_way = true;
    visit();
    ways.under_way = false;
  }

 private:
  struct Ways {
    int count = 0;
    bool under_way = false;  // the walk is inside of this folder
  };

  std::map<Inode, Ways> ways_;
};

/// Returns the paths in order, each once: while a folder changes, some file systems name a file
/// twice.
std::vector<std::string> without_repeats(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

/// Adds the files below `folder` to `found`.
void list_below(const std::string& folder, LeftOut left_out, Visits& visits,
                std::vector<std::string>& found) {
  visits.of(folder, left_out, [&] {
    for (const Child& child : children_of(folder, left_out)) {
      std::string path = join(folder, child.name);
      const Kind kind = child.kind ? *child.kind : kind_of(path);
      if (kind == Kind::folder) {
        list_below(path, forbidden, visits, found);
      } else if (kind == Kind::file) {
        found.push_back(std::move(path));
      }
    }
  });
}

void glob_below(const std::string& folder, std::string_view pattern, bool hidden,
                std::vector<std::string>& found);

/// Adds to `found` the paths that match `pattern` below `folder` and below each folder in it.
void glob_anywhere(const std::string& folder, std::string_view pattern, bool hidden, Visits& visits,
                   std::vector<std::string>& found) {
  visits.of(folder, absent, [&] {
    glob_below(folder, pattern, hidden, found);
    for (const Child& child : children_of(folder, absent)) {
      if (!hidden && child.name.starts_with('.')) continue;
      const std::string path = join(folder, child.name);
      if ((child.kind ? *child.kind : kind_of(path)) == Kind::folder)
        glob_anywhere(path, pattern, hidden, visits, found);
    }
  });
}

/// Adds to `found` the paths below `folder` that match `pattern`.
void glob_below(const std::string& folder, std::string_view pattern, bool hidden,
                std::vector<std::string>& found) {
  const std::size_t slash = pattern.find('/');
  const std::string part(pattern.substr(0, slash));
  const bool last = slash == std::string_view::npos;
  const std::size_t next = last ? pattern.size() : pattern.find_first_not_of('/', slash);
  const std::string_view rest =
      next == std::string_view::npos ? std::string_view() : pattern.substr(next);
  if (part == kAnyFolders) {
    if (rest.starts_with("**/")) return glob_below(folder, rest, hidden, found);
    Visits visits;
    return glob_anywhere(folder, last || rest == kAnyFolders ? "*" : rest, hidden, visits, found);
  }
  if (!has_pattern(part)) {
    const std::string path = join(folder, part);
    const Kind kind = kind_of(path);
    if (last && kind == Kind::file) found.push_back(path);
    if (!last && kind == Kind::folder) glob_below(path, rest, hidden, found);
    return;
  }
  for (const Child& child : children_of(folder, absent)) {
    if (!matches(part, child.name, hidden)) continue;
    const std::string path = join(folder, child.name);
    const Kind kind = child.kind ? *child.kind : kind_of(path);
    if (last && kind == Kind::file) found.push_back(path);
    if (!last && kind == Kind::folder) glob_below(path, rest, hidden, found);
  }
}

}  // namespace

std::vector<std::string> PosixFileSystem::list(const std::string& folder) {
  Visits visits;
  std::vector<std::string> found;
  list_below(folder, nothing, visits, found);
  return without_repeats(std::move(found));
}

std::vector<std::string> PosixFileSystem::glob(const std::string& pattern, bool hidden) {
  if (!has_pattern(pattern)) return {pattern};
  if (kind_of(pattern) == Kind::file) return {pattern};  // the name really has a bracket
  refuse_scheme(pattern);
  std::vector<std::string> found;
  const std::size_t start = pattern.find_first_not_of('/');
  glob_below(start > 0 ? "/" : "", std::string_view(pattern).substr(start), hidden, found);
  return without_repeats(std::move(found));  // several ** find a file in several ways
}

}  // namespace penstock
