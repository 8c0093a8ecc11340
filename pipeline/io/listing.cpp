// PosixFileSystem::list and glob.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
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

struct FreeText {
  void operator()(char* text) const noexcept { std::free(text); }
};

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
    return error == ENOENT && dangling_target(path) ? Kind::file : Kind::other;
  }
  return S_ISREG(st.st_mode) ? Kind::file : S_ISDIR(st.st_mode) ? Kind::folder : Kind::other;
}

std::string join(const std::string& folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder.back() == '/' ? folder + std::string(name) : folder + '/' + std::string(name);
}

/// Calls `use` for each child of a folder. Folders among them are to be visited afterwards, when
/// this one is closed.
template <typename Use>
void for_each_child(const std::string& folder, LeftOut left_out, const Use& use) {
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.empty() ? "." : folder.c_str()));
  struct stat st;
  // Without permission to search the folder, its files can't be opened, although their names can be
  // read.
  if (dir == nullptr || ::fstatat(::dirfd(dir.get()), ".", &st, 0) != 0) {
    const int error = errno;
    if (left_out(error, folder)) return;
    throw error_from_errno(error, "list", folder);
  }
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) throw error_from_errno(errno, "list", folder);
      return;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    std::optional<Kind> kind;
    if (entry->d_type == DT_REG) kind = Kind::file;
    if (entry->d_type == DT_DIR) kind = Kind::folder;
    use(Child{std::string(name), kind});
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
    Ways& ways = ways_[real_path(folder)];
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

  /// Returns a folder's path without links. Inode numbers would not do: on some file systems they
  /// change, on others several folders share one.
  static std::string real_path(const std::string& folder) {
    const std::string name = folder.empty() ? "." : folder;
    const std::unique_ptr<char, FreeText> real(::realpath(name.c_str(), nullptr));
    return real != nullptr ? real.get() : name;
  }

  std::map<std::string, Ways> ways_;  // by real path
};

/// Returns the paths in order, each once: while a folder changes, some file systems name a file
/// twice.
std::vector<std::string> without_repeats(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

using Found = FileSystem::Found;

/// Gives the files below `folder` to `found`.
void list_below(const std::string& folder, LeftOut left_out, Visits& visits, const Found& found) {
  visits.of(folder, left_out, [&] {
    std::vector<std::string> folders;
    for_each_child(folder, left_out, [&](const Child& child) {
      std::string path = join(folder, child.name);
      const Kind kind = child.kind ? *child.kind : kind_of(path);
      if (kind == Kind::folder) {
        folders.push_back(std::move(path));
      } else if (kind == Kind::file) {
        found(path);
      }
    });
    for (const std::string& below : folders) list_below(below, forbidden, visits, found);
  });
}

void glob_below(const std::string& folder, std::string_view pattern, bool hidden,
                const Found& found);

/// Gives the paths that match `pattern` below `folder`, and below each folder in it, to `found`.
void glob_anywhere(const std::string& folder, std::string_view pattern, bool hidden, Visits& visits,
                   const Found& found) {
  visits.of(folder, absent, [&] {
    glob_below(folder, pattern, hidden, found);
    std::vector<std::string> folders;
    for_each_child(folder, absent, [&](const Child& child) {
      if (!hidden && child.name.starts_with('.')) return;
      std::string path = join(folder, child.name);
      if ((child.kind ? *child.kind : kind_of(path)) == Kind::folder)
        folders.push_back(std::move(path));
    });
    for (const std::string& below : folders) glob_anywhere(below, pattern, hidden, visits, found);
  });
}

/// Gives the paths below `folder` that match `pattern` to `found`.
void glob_below(const std::string& folder, std::string_view pattern, bool hidden,
                const Found& found) {
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
  std::vector<std::string> folders;
  const auto take = [&](std::string path, std::optional<Kind> known) {
    const Kind kind = known ? *known : kind_of(path);
    if (last && kind == Kind::file) found(path);
    if (!last && kind == Kind::folder) folders.push_back(std::move(path));
  };
  if (!has_pattern(part)) {
    take(join(folder, part), {});
  } else {
    for_each_child(folder, absent, [&](const Child& child) {
      if (matches(part, child.name, hidden)) take(join(folder, child.name), child.kind);
    });
  }
  for (const std::string& below : folders) glob_below(below, rest, hidden, found);
}

}  // namespace

std::vector<std::string> PosixFileSystem::list(const std::string& folder) {
  std::vector<std::string> found;
  list_each(folder, [&](const std::string& path) { found.push_back(path); });
  return without_repeats(std::move(found));
}

void PosixFileSystem::list_each(const std::string& folder, const Found& found) {
  Visits visits;
  list_below(folder, nothing, visits, found);
}

std::vector<std::string> PosixFileSystem::glob(const std::string& pattern, bool hidden) {
  std::vector<std::string> found;
  glob_each(pattern, hidden, [&](const std::string& path) { found.push_back(path); });
  return without_repeats(std::move(found));  // several ** find a file in several ways
}

void PosixFileSystem::glob_each(const std::string& pattern, bool hidden, const Found& found) {
  // The second: the name really has a bracket.
  if (!has_pattern(pattern) || kind_of(pattern) == Kind::file) return found(pattern);
  refuse_scheme(pattern);
  const std::size_t start = pattern.find_first_not_of('/');
  glob_below(start > 0 ? "/" : "", std::string_view(pattern).substr(start), hidden, found);
}

}  // namespace penstock
