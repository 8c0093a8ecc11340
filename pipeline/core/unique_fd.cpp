#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/internal/posix.h>
#include <penstock/internal/slow_work.h>

namespace penstock {

UniqueFd::UniqueFd(int fd) noexcept : fd_(fd) {
  if (fd < 0 || fd > STDERR_FILENO) return;
  fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int reason = errno;
  ::close(fd);
  errno = reason;
}

UniqueFd::~UniqueFd() {
  if (fd_ < 0) return;
  slow_work("a file is closed");
  ::close(fd_);
}

}  // namespace penstock
