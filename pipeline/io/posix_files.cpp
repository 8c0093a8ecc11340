#include "pipeline/io/posix_files.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/log.h>

#include "pipeline/io/exclusive_file.h"
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
           "skipped: " + std::string(error_from_errno(error, "list", path).what()));
  return true;
}

/// True also if `path` does not exist.
bool absent(int error, const std::string& path) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG ||
         forbidden(error, path);
}

/// Returns the kind of `path`. A dangling link counts as a file: opening it then reports that it is
/// missing.
Kind kind_of(const std::string& path, const FileRoot& root) {
  struct stat st;
  if (root.stat(path, st) != 0) {
    const int error = errno;
    if (!absent(error, path)) throw root.error(error, "list", path);
    return error == ENOENT && root.is_dangling(path) ? Kind::file : Kind::other;
  }
  return S_ISREG(st.st_mode) ? Kind::file : S_ISDIR(st.st_mode) ? Kind::folder : Kind::other;
}

std::string join(const std::string& folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder.back() == '/' ? folder + std::string(name) : folder + '/' + std::string(name);
}

/// Returns null and errno if the folder could not be opened.
DIR* open_folder(UniqueFd fd) {
  if (!fd) return nullptr;
  DIR* const dir = ::fdopendir(fd.get());
  if (dir != nullptr) fd.release();
  return dir;
}

/// Calls `use` for each child of a folder. Folders among them are to be visited afterwards, when
/// this one is closed.
template <typename Use>
void for_each_child(const std::string& folder, const FileRoot& root, LeftOut left_out,
                    const Use& use) {
  const std::unique_ptr<DIR, CloseDir> dir(
      open_folder(root.open(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY | O_NONBLOCK)));
  struct stat st;
  // Without permission to search the folder, its files can't be opened, although their names can be
  // read.
  if (dir == nullptr || ::fstatat(::dirfd(dir.get()), ".", &st, 0) != 0) {
    const int error = errno;
    if (left_out(error, folder)) return;
    throw root.error(error, "list", folder);
  }
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) throw root.error(errno, "list", folder);
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
  explicit Visits(const FileRoot& root) : root_(root) {}

  /// Calls `visit` unless the walk is inside of this folder. Throws Error{out_of_range} for too
  /// many ways to it.
  template <typename Visit>
  void of(const std::string& folder, LeftOut left_out, const Visit& visit) {
    const std::string name = folder.empty() ? "." : folder;
    struct stat st;
    if (root_.stat(name, st) != 0) {
      const int error = errno;
      if (left_out(error, folder)) return;
      throw root_.error(error, "list", folder);
    }
    Ways& ways = ways_[root_.real_path(name)];
    if (ways.under_way) return;
    if (++ways.count > kMostWays)
      throw Error(ErrorCode::out_of_range,
                  "links lead to this folder in more than " + std::to_string(kMostWays) +
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

  const FileRoot& root_;
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

/// A walk through the folders below a root.
class Walk {
 public:
  Walk(const FileRoot& root, bool hidden, const Found& found)
      : root_(root), hidden_(hidden), found_(found) {}

  /// Finds the files below a folder.
  void list(const std::string& folder, LeftOut left_out, Visits& visits) {
    visits.of(folder, left_out, [&] {
      std::vector<std::string> folders;
      for_each_child(folder, root_, left_out, [&](const Child& child) {
        std::string path = join(folder, child.name);
        const Kind kind = child.kind ? *child.kind : kind_of(path, root_);
        if (kind == Kind::folder) {
          folders.push_back(std::move(path));
        } else if (kind == Kind::file) {
          found_(path);
        }
      });
      for (const std::string& below : folders) list(below, forbidden, visits);
    });
  }

  /// Finds the paths below a folder that match `pattern`.
  void glob(const std::string& folder, std::string_view pattern) {
    const std::size_t slash = pattern.find('/');
    const std::string part(pattern.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    const std::size_t next = last ? pattern.size() : pattern.find_first_not_of('/', slash);
    const std::string_view rest =
        next == std::string_view::npos ? std::string_view() : pattern.substr(next);
    if (part == kAnyFolders) {
      if (rest.starts_with("**/")) return glob(folder, rest);
      // Two ** reach a folder in many ways.
      if (!rest_at_.emplace(folder, rest.size()).second) return;
      Visits visits(root_);
      return glob_anywhere(folder, last || rest == kAnyFolders ? "*" : rest, visits);
    }
    std::vector<std::string> folders;
    const auto take = [&](std::string path, std::optional<Kind> known) {
      const Kind kind = known ? *known : kind_of(path, root_);
      if (last && kind == Kind::file) found_(path);
      if (!last && kind == Kind::folder) folders.push_back(std::move(path));
    };
    if (!has_pattern(part)) {
      take(join(folder, part), {});
    } else {
      for_each_child(folder, root_, absent, [&](const Child& child) {
        if (matches(part, child.name, hidden_)) take(join(folder, child.name), child.kind);
      });
    }
    for (const std::string& below : folders) glob(below, rest);
  }

 private:
  /// Finds the paths that match `pattern` below a folder, and below each folder in it.
  void glob_anywhere(const std::string& folder, std::string_view pattern, Visits& visits) {
    visits.of(folder, absent, [&] {
      glob(folder, pattern);
      std::vector<std::string> folders;
      for_each_child(folder, root_, absent, [&](const Child& child) {
        if (!hidden_ && child.name.starts_with('.')) return;
        std::string path = join(folder, child.name);
        if ((child.kind ? *child.kind : kind_of(path, root_)) == Kind::folder)
          folders.push_back(std::move(path));
      });
      for (const std::string& below : folders) glob_anywhere(below, pattern, visits);
    });
  }

  const FileRoot& root_;
  const bool hidden_;
  const Found& found_;
  std::set<std::pair<std::string, std::size_t>> rest_at_;  // folder, length of the pattern's rest
};

}  // namespace

std::vector<std::string> PosixFileSystem::list(const std::string& folder) {
  std::vector<std::string> found;
  list_each(folder, [&](const std::string& path) { found.push_back(path); });
  return without_repeats(std::move(found));
}

void PosixFileSystem::list_each(const std::string& folder, const Found& found) {
  Visits visits(root());
  Walk(root(), true, found).list(folder, nothing, visits);
}

std::vector<std::string> PosixFileSystem::glob(const std::string& pattern, bool hidden) {
  std::vector<std::string> found;
  glob_each(pattern, hidden, [&](const std::string& path) { found.push_back(path); });
  return without_repeats(std::move(found));  // several ** find a file in several ways
}

void PosixFileSystem::glob_each(const std::string& pattern, bool hidden, const Found& found) {
  if (pattern.size() >= PATH_MAX && has_pattern(pattern))
    throw Error(ErrorCode::out_of_range, "a pattern has " + std::to_string(pattern.size()) +
                                             " bytes, and a path has fewer than " +
                                             std::to_string(PATH_MAX));
  // The second: the name really has a bracket.
  if (!has_pattern(pattern) || kind_of(pattern, root()) == Kind::file) return found(pattern);
  root().check_pattern(pattern);
  // The walk starts where the first part with a pattern is.
  const std::size_t first = pattern.find_first_not_of('/');
  std::string folder = first > 0 ? "/" : "";
  std::string_view rest = std::string_view(pattern).substr(first);
  for (;;) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (has_pattern(part)) break;
    folder = join(folder, part);
    rest.remove_prefix(rest.find_first_not_of('/', part.size()));
  }
  Walk(root(), hidden, found).glob(folder, rest);
}

FileInfo PosixFileSystem::info(const std::string& path) {
  struct stat st;
  if (root().stat(path, st) != 0) throw root().error(errno, "find", path);
  return info_of(st);
}

bool PosixFileSystem::is_directory(const std::string& path) {
  struct stat st;
  if (root().stat(path, st) == 0) return S_ISDIR(st.st_mode);
  if (errno == EXDEV) throw root().error(errno, "find", path);
  return false;
}

std::unique_ptr<WritableFile> PosixFileSystem::create(const std::string& path) {
  if (!root().writable()) return FileSystem::create(path);
  return std::make_unique<ExclusiveFile>(path);
}

void PosixFileSystem::remove(const std::string& path) {
  if (!root().writable()) return FileSystem::remove(path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw error_from_errno(errno, "remove", path);
}

}  // namespace penstock
