#include "pipeline/io/partial_file.h"

#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/io/file_lock.h"

namespace penstock {
namespace {

constexpr int kMostNames = 100;     // names to try; others may be taken by unrelated files
constexpr int kMostTries = 10'000;  // while other writers make and remove such files

std::string partial_name(const std::string& path, int number) {
  return path + ".partial" + (number == 0 ? "" : "-" + std::to_string(number));
}

/// Returns nothing if the name is taken.
std::optional<UniqueFd> create_new(const std::string& name, const std::string& path, mode_t mode) {
  for (;;) {
    UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (fd) return fd;
    if (errno == EEXIST) return std::nullopt;
    if (errno != EINTR) throw error_from_errno(errno, "write", path);
  }
}

bool is_plain_file(const struct stat& st) noexcept {
  return S_ISREG(st.st_mode) && st.st_nlink == 1;
}

/// Opens a plain file that has the name already; returns nothing if it is something else, or gone.
UniqueFd open_found(const std::string& name, bool resumable) {
  struct stat st {};
  // Examined before it is opened, since opening some devices has an effect.
  if (::lstat(name.c_str(), &st) != 0 || !is_plain_file(st)) return {};
  constexpr int kHow = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::open(name.c_str(), O_RDWR | kHow));  // NFSv4 locks no other descriptor
  if (!fd && !resumable) fd = UniqueFd(::open(name.c_str(), O_RDONLY | kHow));
  if (!fd || ::fstat(fd.get(), &st) != 0 || !is_plain_file(st)) return {};
  return fd;
}

bool is_mine(int fd) noexcept {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && st.st_uid == ::geteuid();
}

bool is_same_time(const timespec& a, const timespec& b) noexcept {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool is_free(const std::string& name) noexcept {
  struct stat st {};
  return ::lstat(name.c_str(), &st) != 0 && errno == ENOENT;
}

}  // namespace

bool is_named(int fd, const std::string& name) noexcept {
  struct stat opened {};
  struct stat named {};
  if (::fstat(fd, &opened) != 0 || ::lstat(name.c_str(), &named) != 0) return false;
  if (opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) return true;
  // Some file systems give a file another number at any time. A removed file has no name left.
  return opened.st_nlink > 0 && S_ISREG(named.st_mode) && opened.st_uid == named.st_uid &&
         opened.st_size == named.st_size && is_same_time(opened.st_mtim, named.st_mtim) &&
         is_same_time(opened.st_ctim, named.st_ctim);
}

PartialFile make_partial(const std::string& path, mode_t mode, PartialOptions options) {
  int number = 0;
  for (int tries = 0; number < kMostNames && tries < kMostTries; ++tries) {
    std::string name = partial_name(path, number);
    if (std::optional<UniqueFd> fd = create_new(name, path, mode)) {
      const Locked locked = try_lock(fd->get(), path);
      // Another writer may have taken it for left behind, and removed it.
      if (locked == Locked::by_another || !is_named(fd->get(), name)) continue;
      return {*std::move(fd), std::move(name)};
    }
    UniqueFd found = open_found(name, options.resumable);
    if (!found) {
      if (!is_free(name)) ++number;
      continue;
    }
    Locked locked = try_lock(found.get(), path);
    // Without locks, the user keeps writers apart that exclude each other.
    if (locked == Locked::not_supported && options.exclusive) locked = Locked::yes;
    if (locked == Locked::by_another && options.exclusive)
      throw Error(ErrorCode::unavailable, lock_holder(found.get()) + " is writing the file",
                  {.shard = path});
    if (locked != Locked::yes || !is_mine(found.get())) {
      ++number;
    } else if (is_named(found.get(), name)) {
      if (options.resumable) return {std::move(found), std::move(name)};
      // Removed while it is locked, so that it is no other writer's.
      if (::unlink(name.c_str()) != 0 && errno != ENOENT) ++number;
    }
  }
  if (number < kMostNames)
    throw Error(
        ErrorCode::unavailable,
        "can't create: " + partial_name(path, number) + " keeps being replaced by another file",
        {.shard = path});
  throw Error(ErrorCode::unavailable,
              "can't create: all names up to " + partial_name(path, kMostNames - 1) + " are taken",
              {.shard = path});
}

}  // namespace penstock
