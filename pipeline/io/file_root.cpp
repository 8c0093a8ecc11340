#include "pipeline/io/file_root.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <penstock/internal/slow_work.h>
#include <penstock/remote_files.h>

#include "pipeline/io/posix.h"

namespace penstock {
namespace {

class SystemRoot final : public FileRoot {
 public:
  UniqueFd open(const std::string& path, int flags) const noexcept override {
    slow_work("a file is opened");
    return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
  }
  int stat(const std::string& path, struct stat& st) const noexcept override {
    slow_work("a file is examined");
    return ::stat(path.c_str(), &st);
  }
  bool is_dangling(const std::string& path) const override {
    return dangling_target(path).has_value();
  }
  /// Inode numbers would not do: on some file systems they change, on others several folders share
  /// one.
  std::string real_path(const std::string& folder) const override {
    const std::unique_ptr<char, FreeText> real(::realpath(folder.c_str(), nullptr));
    return real != nullptr ? real.get() : folder;
  }
  Error error(int error, std::string_view action, const std::string& path) const override {
    return error_from_errno(error, action, path);
  }
  void check_pattern(const std::string& pattern) const override { refuse_scheme(pattern); }
  bool writable() const noexcept override { return true; }

 private:
  struct FreeText {
    void operator()(char* text) const noexcept { std::free(text); }
  };
};

constexpr int kMostLinks = 40;  // as many as the kernel follows

using Parts = std::deque<std::string>;

/// Puts the parts of a path before others.
void put_before(Parts& parts, std::string_view path) {
  Parts more;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) more.emplace_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  // "a/" is a folder.
  if (path.ends_with('/')) more.emplace_back(".");
  parts.insert(parts.begin(), more.begin(), more.end());
}

/// Returns the target of an open link; empty and errno if it can't be read.
std::string target_of(int link) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(link, "", target.data(), target.size());
  target.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return target;
}

class FolderRoot final : public FileRoot {
 public:
  FolderRoot(const std::string& folder, Beneath how) : how_(how) {
    std::error_code error;
    names_ = {std::filesystem::canonical(folder, error).string(),
              std::filesystem::absolute(folder, error).lexically_normal().string()};
    for (std::string& name : names_)
      while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    root_ = UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_ || names_.front().empty())
      throw Error(ErrorCode::not_found, "there is no such folder", {.shard = folder});
  }

  UniqueFd open(const std::string& path, int flags) const noexcept override try {
    slow_work("a file is opened");
    const std::optional<std::string_view> rest = behind_root(path);
    if (!rest) return failed(EXDEV);
    if (path.size() >= PATH_MAX) return failed(ENAMETOOLONG);
    return open_rest(*rest, flags | O_CLOEXEC);
  } catch (const std::exception&) {
    return failed(ENOMEM);
  }
  int stat(const std::string& path, struct stat& st) const noexcept override {
    const UniqueFd fd = open(path, O_PATH);
    return fd ? ::fstat(fd.get(), &st) : -1;
  }
  bool is_dangling(const std::string& path) const override {
    struct stat st {};
    const UniqueFd itself = open(path, O_PATH | O_NOFOLLOW);
    return itself && ::fstat(itself.get(), &st) == 0 && S_ISLNK(st.st_mode) &&
           stat(path, st) != 0 && errno == ENOENT;
  }
  std::string real_path(const std::string& folder) const override {
    const UniqueFd fd = open(folder, O_PATH);
    std::string real(PATH_MAX, '\0');
    const std::string self = "/proc/self/fd/" + std::to_string(fd.get());
    const ssize_t size = fd ? ::readlink(self.c_str(), real.data(), real.size()) : -1;
    return size > 0 ? real.substr(0, static_cast<std::size_t>(size)) : folder;
  }
  Error error(int error, std::string_view action, const std::string& path) const override {
    if (error == EXDEV) return outside(path);
    // What a link leads to may lie outside.
    if (error == ENOENT)
      return Error(ErrorCode::not_found,
                   "can't " + std::string(action) + ": " + std::generic_category().message(error),
                   {.shard = path});
    return error_from_errno(error, action, path);
  }
  /// A part "*" may be a link to a deeper folder, so `open` decides about the "..".
  void check_pattern(const std::string& pattern) const override {
    if (!behind_root(pattern)) throw outside(pattern);
    int depth = 0;
    Parts parts;
    put_before(parts, *behind_root(pattern));
    for (const std::string& part : parts) {
      depth += part == ".." ? -1 : part == "." ? 0 : 1;
      if (depth < 0) throw outside(pattern);
    }
  }
  bool writable() const noexcept override { return false; }

 private:
  static Error outside(const std::string& path) {
    return is_remote(path)
               ? Error(ErrorCode::not_found, "the file is on a server, outside the served folder",
                       {.shard = path})
               : Error(ErrorCode::not_found, "the file is outside the served folder",
                       {.shard = path});
  }
  static UniqueFd failed(int error) noexcept {
    errno = error;
    return {};
  }

  /// Returns what follows the folder in a path; nothing for an absolute path elsewhere. Clients
  /// must not reach servers through this machine.
  std::optional<std::string_view> behind_root(std::string_view path) const {
    if (is_remote(path)) return std::nullopt;
    if (!path.starts_with('/')) return path;
    for (const std::string& name : names_) {
      if (!path.starts_with(name)) continue;
      const std::string_view rest = path.substr(name == "/" ? 0 : name.size());
      if (!rest.empty() && !rest.starts_with('/')) continue;
      const std::size_t first = rest.find_first_not_of('/');
      return first == rest.npos ? std::string_view() : rest.substr(first);
    }
    return std::nullopt;
  }

  UniqueFd open_rest(std::string_view rest, int flags) const {
    if (how_ == Beneath::kernel) {
      const std::string path = rest.empty() ? "." : std::string(rest);
      open_how how{};
      how.flags = static_cast<std::uint64_t>(flags);
      how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
      UniqueFd fd(
          static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof(how))));
      // EXDEV: a link with an absolute target, which may lie below the folder all the same. EAGAIN:
      // something was renamed meanwhile. The rest: there is no such call, or a filter refuses it.
      if (fd || (errno != EXDEV && errno != EAGAIN && errno != ENOSYS && errno != EPERM &&
                 errno != EINVAL && errno != E2BIG))
        return fd;
    }
    return open_by_hand(rest, flags);
  }

  UniqueFd open_by_hand(std::string_view rest, int flags) const {
    Parts parts;
    put_before(parts, rest);
    std::vector<UniqueFd> folders;  // on the way to the next part, without the root
    int links = 0;
    while (!parts.empty()) {
      const std::string part = std::move(parts.front());
      parts.pop_front();
      if (part == ".") continue;
      if (part == "..") {
        if (folders.empty()) return failed(EXDEV);
        folders.pop_back();
        continue;
      }
      const int folder = folders.empty() ? root_.get() : folders.back().get();
      UniqueFd next(::openat(folder, part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat st {};
      if (!next || ::fstat(next.get(), &st) != 0) return {};
      const bool last = parts.empty();
      if (!S_ISLNK(st.st_mode)) {
        if (last && S_ISDIR(st.st_mode) == 0)
          return (flags & O_PATH) != 0
                     ? std::move(next)
                     : UniqueFd(::openat(folder, part.c_str(), flags | O_NOFOLLOW));
        folders.push_back(std::move(next));
        continue;
      }
      if (last && (flags & O_NOFOLLOW) != 0)
        return (flags & O_PATH) != 0 ? std::move(next) : failed(ELOOP);
      if (++links > kMostLinks) return failed(ELOOP);
      const std::string target = target_of(next.get());
      if (target.empty()) return {};
      const std::optional<std::string_view> below = behind_root(target);
      if (!below) return failed(EXDEV);
      if (target.starts_with('/')) folders.clear();
      put_before(parts, *below);
    }
    return UniqueFd(
        ::openat(folders.empty() ? root_.get() : folders.back().get(), ".", flags & ~O_NOFOLLOW));
  }

  const Beneath how_;
  std::vector<std::string> names_;
  UniqueFd root_;
};

}  // namespace

const FileRootPtr& system_root() {
  static const FileRootPtr root = std::make_shared<SystemRoot>();
  return root;
}

FileRootPtr folder_root(const std::string& folder, Beneath how) {
  return std::make_shared<FolderRoot>(folder, how);
}

}  // namespace penstock
