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

/// The files below a folder.
class Listing {
 public:
  void add(const std::string& folder, LeftOut left_out) {
    struct stat st;
    if (::stat(folder.c_str(), &st) != 0) {
      const int error = errno;
      if (left_out(error, folder)) return;
      throw error_from_errno(error, "list", folder);
    }
    Visits& visits = visits_[{st.st_dev, st.st_ino}];
    if (visits.under_way) return;
    if (++visits.count > kMostWays)
      throw Error(ErrorCode::out_of_range,
                  "links lead to this folder by more than " + std::to_string(kMostWays) +
                      " ways (folder_ways)",
                  {.shard = folder});
    visits.under_way = true;
    for (const Child& child : children_of(folder, left_out)) {
      std::string path = join(folder, child.name);
      const Kind kind = child.kind ? *child.kind : kind_of(path);
      if (kind == Kind::folder) {
        add(path, forbidden);
      } else if (kind == Kind::file) {
        found_.push_back(std::move(path));
      }
    }
    visits.under_way = false;
  }

  std::vector<std::string> sorted() && {
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  struct Visits {
    int count = 0;
    bool under_way = false;  // the walk is inside of this folder
  };

  std::map<Inode, Visits> visits_;
  std::vector<std::string> found_;
};

/// Adds to `found` the paths below `folder` that match `pattern`.
void glob_below(const std::string& folder, std::string_view pattern, bool hidden,
                std::vector<std::string>& found) {
  const std::size_t slash = pattern.find('/');
  const std::string part(pattern.substr(0, slash));
  const bool last = slash == std::string_view::npos;
  const std::size_t next = last ? pattern.size() : pattern.find_first_not_of('/', slash);
  const std::string_view rest =
      next == std::string_view::npos ? std::string_view() : pattern.substr(next);
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
  Listing listing;
  listing.add(folder, nothing);
  return std::move(listing).sorted();
}

std::vector<std::string> PosixFileSystem::glob(const std::string& pattern, bool hidden) {
  if (!has_pattern(pattern)) return {pattern};
  if (kind_of(pattern) == Kind::file) return {pattern};  // the name really has a bracket
  refuse_scheme(pattern);
  std::vector<std::string> found;
  const std::size_t start = pattern.find_first_not_of('/');
  glob_below(start > 0 ? "/" : "", std::string_view(pattern).substr(start), hidden, found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace penstock
