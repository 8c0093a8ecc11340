#include "pipeline/io/file_lock.h"

#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <penstock/log.h>

#include "pipeline/io/fs_support.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{2};
constexpr std::chrono::milliseconds kUntilNamed{100};
constexpr const char* kUnnamed = "another process";

/// Open for writing, as NFSv4 and EFS lock no other descriptor.
UniqueFd open_lock(const std::string& name) {
  for (;;) {
    UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    const int error = errno;
    // That of another user may only be readable, which suffices for a lock on most file systems.
    if (!fd && (error == EACCES || error == EPERM || error == EROFS))
      fd = UniqueFd(::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat st {};
    if (fd && ::fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode)) return fd;
    if (fd || error == ELOOP || error == ENXIO || error == EISDIR)
      throw Error(ErrorCode::unavailable, "can't lock: not a regular file", {.shard = name});
    if (error != EINTR) throw error_from_errno(error, "lock", name);
  }
}

/// A line of /proc/locks, see proc(5): "1: FLOCK  ADVISORY  WRITE 708 08:01:131 0 EOF". A line with
/// an arrow behind the number is a lock that a process waits for.
struct LockLine {
  long process = 0;
  unsigned long major = 0;
  unsigned long minor = 0;
  unsigned long long inode = 0;

  static LockLine parse(const std::string& line) {
    std::istringstream in(line);
    std::string number, kind, strength, access;
    LockLine lock;
    char colon = 0;
    if (!(in >> number >> kind >> strength >> access >> lock.process) || kind != "FLOCK") return {};
    in >> std::hex >> lock.major >> colon >> lock.minor >> colon >> std::dec >> lock.inode;
    return in ? lock : LockLine{};
  }
};

}  // namespace

std::string lock_holder(int fd) {
  struct stat st {};
  std::ifstream locks("/proc/locks");
  long process = 0;
  if (::fstat(fd, &st) == 0) {
    for (std::string line; std::getline(locks, line);) {
      const LockLine lock = LockLine::parse(line);
      if (lock.process <= 0 || lock.inode != st.st_ino) continue;
      // Some file systems report another device number for themselves than for their files.
      const bool same = lock.major == major(st.st_dev) && lock.minor == minor(st.st_dev);
      if (same || process == 0) process = lock.process;
      if (same) break;
    }
  }
  return process > 0 ? "process " + std::to_string(process) : kUnnamed;
}

Locked try_lock(int fd, const std::string& path) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return Locked::by_another;
    const int error = errno;
    if (!is_unsupported(FsCall::lock, error)) throw error_from_errno(error, "lock", path);
    log_once(LogLevel::warning, "lock",
             path + ": the file system has no locks (" + std::generic_category().message(error) +
                 "), so two runs may write it at the same time");
    return Locked::not_supported;
  }
  return Locked::yes;
}

FileLock::FileLock(const std::string& path, std::chrono::milliseconds patience)
    : fd_(open_lock(path + ".lock")) {
  const auto start = Clock::now();
  for (;;) {
    if (try_lock(fd_.get(), path) != Locked::by_another) return;
    const auto waited = Clock::now() - start;
    if (waited >= patience) {
      const std::string holder = lock_holder(fd_.get());
      // A holder that the system does not name may have ended just now.
      if (holder != kUnnamed || waited >= patience + kUntilNamed)
        throw Error(ErrorCode::unavailable,
                    holder + " has locked the file: wait until it ends, or name another file",
                    {.shard = path});
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace penstock
