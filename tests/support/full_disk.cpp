// Loaded before the C library: fails the writing of chosen files as a full disk does.
//
//   PENSTOCK_DISK_FILES  files whose paths contain this are meant
//   PENSTOCK_DISK_STEP   which of their steps fails, from 1: to be created, written to, synced,
//                        cut, renamed or closed; a write fails in its middle
//   PENSTOCK_DISK_ERRNO  with this error
//   PENSTOCK_DISK_FULL   1: so do all later attempts to create them and to write to them
//   PENSTOCK_DISK_LOG    a file that gets a byte for each failure
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/support/preloaded.h"

namespace {

using penstock::test::note_in;
using penstock::test::of_path;
using penstock::test::real;

std::mutex mutex;
long steps = 0;

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_meant(const char* path) {
  const char* files = setting("PENSTOCK_DISK_FILES");
  return *files != '\0' && std::strstr(path, files) != nullptr;
}

bool is_meant(int fd) {
  return of_path(fd, [](const char* path) { return is_meant(path); });
}

enum class Step { passes, fails, fails_within };

/// Counts a step of a file that is meant. `needs_room`: fails on a disk that is full already.
Step next_step(bool needs_room, bool has_middle) {
  const std::lock_guard lock(mutex);
  const long at = std::atol(setting("PENSTOCK_DISK_STEP"));
  ++steps;
  // What fails in its middle fails at the next attempt.
  const bool again = steps > at && needs_room && *setting("PENSTOCK_DISK_FULL") == '1';
  static bool within = false;
  if (steps == at && has_middle) {
    within = true;
    return Step::fails_within;
  }
  const bool fails = steps == at || again || (within && needs_room);
  within = false;
  if (!fails) return Step::passes;
  note_in("PENSTOCK_DISK_LOG");
  errno = std::atoi(setting("PENSTOCK_DISK_ERRNO"));
  return Step::fails;
}

template <typename F>
int simple(bool meant, F act) {
  if (meant && next_step(false, false) != Step::passes) return -1;
  return act();
}

ssize_t write_some(int fd, size_t size, ssize_t (*act)(int, const void*, size_t),
                   const void* bytes) {
  if (!is_meant(fd)) return act(fd, bytes, size);
  const Step step = next_step(true, size > 1);
  if (step == Step::fails) return -1;
  return act(fd, bytes, step == Step::fails_within ? size / 2 : size);
}

int open_some(const char* name, int how, mode_t mode, const char* path) {
  struct stat st;
  if ((how & O_CREAT) != 0 && is_meant(path) && ::lstat(path, &st) != 0 &&
      next_step(true, false) != Step::passes)
    return -1;
  return real(&::open, name)(path, how, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int how, ...) {
  va_list rest;
  va_start(rest, how);
  const auto mode = static_cast<mode_t>((how & O_CREAT) != 0 ? va_arg(rest, int) : 0);
  va_end(rest);
  return open_some("open", how, mode, path);
}

int open64(const char* path, int how, ...) {
  va_list rest;
  va_start(rest, how);
  const auto mode = static_cast<mode_t>((how & O_CREAT) != 0 ? va_arg(rest, int) : 0);
  va_end(rest);
  return open_some("open64", how, mode, path);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  return write_some(fd, size, real(&::write, "write"), bytes);
}

int fsync(int fd) {
  return simple(is_meant(fd), [&] { return real(&::fsync, "fsync")(fd); });
}
int fdatasync(int fd) {
  return simple(is_meant(fd), [&] { return real(&::fdatasync, "fdatasync")(fd); });
}
int ftruncate(int fd, off_t size) noexcept {
  return simple(is_meant(fd), [&] { return real(&::ftruncate, "ftruncate")(fd, size); });
}
int ftruncate64(int fd, off64_t size) noexcept {
  return simple(is_meant(fd), [&] { return real(&::ftruncate64, "ftruncate64")(fd, size); });
}
int rename(const char* from, const char* to) noexcept {
  return simple(is_meant(to), [&] { return real(&::rename, "rename")(from, to); });
}
/// Closed all the same.
int close(int fd) {
  const bool fails = is_meant(fd) && next_step(false, false) != Step::passes;
  const int error = errno;
  const int result = real(&::close, "close")(fd);
  if (!fails) return result;
  errno = error;
  return -1;
}

}  // extern "C"
