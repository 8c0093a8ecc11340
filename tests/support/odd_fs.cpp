// Loaded before the C library: files below a folder lie on a file system that lacks something, as
// those of servers, virtual machines and FUSE do.
//
//   PENSTOCK_ODD_FOLDER  this folder
//   PENSTOCK_ODD         a comma-separated list of
//     flock=E fsync=E fsyncdir=E opendir=E fchmod=E faccessat=E tmpfile=E mmap=E
//               the call fails with errno E; fsync of a file, opendir: open(2) of a folder
//     nfs4      an exclusive lock needs a descriptor that can write, as flock(2) says of NFS
//     ino       a file has another inode number at each open(2) and stat(2)
//     dev       and another device number
//     one-ino   all files and folders have the same inode number
//     ctime     a file's ctime is another at each stat(2), as if a server changed it
//     mtime-s   a file's mtime has nanoseconds at the first stat(2), and whole seconds later
//     same-times  all files have the same mtime and ctime
//     type=T    statfs(2) gives this number of a file system
//   PENSTOCK_ODD_LOG     a file that gets a byte for each call that was odd
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/support/preloaded.h"

namespace {

using penstock::test::note_in;
using penstock::test::of_path;
using penstock::test::real;

constexpr int kMostFds = 4096;
std::atomic<unsigned long> numbers{9'000'000};
std::atomic<unsigned long> number_of[kMostFds];  // while a file is open, its number lasts
std::atomic<long> stats{0};
std::atomic<bool> seen[65'536];  // files, by their true inode numbers

/// Returns the value of a setting, 1 if it has none, and 0 if it is not set.
long setting(const char* name) {
  const char* at = std::getenv("PENSTOCK_ODD");
  const std::size_t size = std::strlen(name);
  while (at != nullptr && *at != '\0') {
    if (std::strncmp(at, name, size) == 0) {
      if (at[size] == '=') return std::strtol(at + size + 1, nullptr, 0);
      if (at[size] == ',' || at[size] == '\0') return 1;
    }
    at = std::strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return 0;
}

bool is_below(const char* path) {
  const char* folder = std::getenv("PENSTOCK_ODD_FOLDER");
  return folder != nullptr && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool is_below(int fd) {
  return of_path(fd, [](const char* path) { return is_below(path); });
}

void note() {
  note_in("PENSTOCK_ODD_LOG");
}

/// True if the call `name` of a file that is meant fails; then errno is set.
template <typename Of>
bool fails(const char* name, Of file) {
  const long error = setting(name);
  if (error == 0 || !is_below(file)) return false;
  note();
  errno = static_cast<int>(error);
  return true;
}

/// Makes the facts of a file odd. `fd` negative: it is not open.
template <typename Stat>
void make_odd(Stat& st, int fd) {
  const bool again = seen[st.st_ino % std::size(seen)].exchange(true);
  if (setting("one-ino") != 0) st.st_ino = 1;
  if (!S_ISREG(st.st_mode)) return;
  if (setting("ino") != 0) {
    unsigned long number = ++numbers;
    if (fd >= 0 && fd < kMostFds) {
      unsigned long none = 0;
      if (!number_of[fd].compare_exchange_strong(none, number)) number = number_of[fd];
    }
    st.st_ino = number;
    note();
  }
  if (setting("same-times") != 0) st.st_mtim = st.st_ctim = {1'000'000'000, 0};
  if (setting("dev") != 0) st.st_dev = static_cast<dev_t>(++numbers);
  if (setting("ctime") != 0) {
    st.st_ctim.tv_sec += ++stats;
    note();
  }
  if (setting("mtime-s") != 0) {
    st.st_mtim.tv_nsec = again ? 0 : 123'456'789;
    if (again) note();
  }
}

template <typename Stat>
int stat_of(const char* name, int (*mine)(const char*, Stat*) noexcept, const char* path,
            Stat* st) {
  const int result = real(mine, name)(path, st);
  if (result == 0 && is_below(path)) make_odd(*st, -1);
  return result;
}

template <typename Stat>
int stat_of(const char* name, int (*mine)(int, Stat*) noexcept, int fd, Stat* st) {
  const int result = real(mine, name)(fd, st);
  if (result == 0 && is_below(fd)) make_odd(*st, fd);
  return result;
}

int open_some(const char* name, int how, mode_t mode, const char* path) {
  if ((how & O_TMPFILE) == O_TMPFILE) {
    if (fails("tmpfile", path)) return -1;
  } else if ((how & O_DIRECTORY) != 0 && fails("opendir", path)) {
    return -1;
  }
  return real(&::open, name)(path, how, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int how, ...) {
  va_list rest;
  va_start(rest, how);
  const bool makes = (how & O_CREAT) != 0 || (how & O_TMPFILE) == O_TMPFILE;
  const auto mode = static_cast<mode_t>(makes ? va_arg(rest, int) : 0);
  va_end(rest);
  return open_some("open", how, mode, path);
}
int open64(const char* path, int how, ...) {
  va_list rest;
  va_start(rest, how);
  const bool makes = (how & O_CREAT) != 0 || (how & O_TMPFILE) == O_TMPFILE;
  const auto mode = static_cast<mode_t>(makes ? va_arg(rest, int) : 0);
  va_end(rest);
  return open_some("open64", how, mode, path);
}
int close(int fd) {
  if (fd >= 0 && fd < kMostFds) number_of[fd] = 0;
  return real(&::close, "close")(fd);
}

int flock(int fd, int how) noexcept {
  if (fails("flock", fd)) return -1;
  if (setting("nfs4") != 0 && (how & LOCK_EX) != 0 && is_below(fd) &&
      (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    note();
    return -1;
  }
  return real(&::flock, "flock")(fd, how);
}
int fsync(int fd) {
  struct stat st {};
  const bool folder = real(&::fstat, "fstat")(fd, &st) == 0 && S_ISDIR(st.st_mode);
  return fails(folder ? "fsyncdir" : "fsync", fd) ? -1 : real(&::fsync, "fsync")(fd);
}
int fdatasync(int fd) {
  return fails("fsync", fd) ? -1 : real(&::fdatasync, "fdatasync")(fd);
}
int fchmod(int fd, mode_t mode) noexcept {
  return fails("fchmod", fd) ? -1 : real(&::fchmod, "fchmod")(fd, mode);
}
int faccessat(int at, const char* path, int mode, int how) noexcept {
  return fails("faccessat", path) ? -1 : real(&::faccessat, "faccessat")(at, path, mode, how);
}
void* mmap(void* at, size_t size, int use, int how, int fd, off_t offset) noexcept {
  if (fd >= 0 && (how & MAP_SHARED) != 0 && fails("mmap", fd)) return MAP_FAILED;
  return real(&::mmap, "mmap")(at, size, use, how, fd, offset);
}
void* mmap64(void* at, size_t size, int use, int how, int fd, off64_t offset) noexcept {
  if (fd >= 0 && (how & MAP_SHARED) != 0 && fails("mmap", fd)) return MAP_FAILED;
  return real(&::mmap64, "mmap64")(at, size, use, how, fd, offset);
}
int statfs(const char* path, struct statfs* st) noexcept {
  const int result = real(&::statfs, "statfs")(path, st);
  if (result == 0 && setting("type") != 0 && is_below(path)) st->f_type = setting("type");
  return result;
}

int stat(const char* path, struct stat* st) noexcept {
  return stat_of("stat", &::stat, path, st);
}
int stat64(const char* path, struct stat64* st) noexcept {
  return stat_of("stat64", &::stat64, path, st);
}
int lstat(const char* path, struct stat* st) noexcept {
  return stat_of("lstat", &::lstat, path, st);
}
int lstat64(const char* path, struct stat64* st) noexcept {
  return stat_of("lstat64", &::lstat64, path, st);
}
int fstat(int fd, struct stat* st) noexcept {
  return stat_of("fstat", &::fstat, fd, st);
}
int fstat64(int fd, struct stat64* st) noexcept {
  return stat_of("fstat64", &::fstat64, fd, st);
}
int fstatat(int at, const char* path, struct stat* st, int how) noexcept {
  const int result = real(&::fstatat, "fstatat")(at, path, st, how);
  if (result == 0 && (path[0] == '/' || at == AT_FDCWD ? is_below(path) : is_below(at)))
    make_odd(*st, -1);
  return result;
}

}  // extern "C"
