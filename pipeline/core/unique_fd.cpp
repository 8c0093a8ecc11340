#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/internal/posix.h>

namespace penstock {

UniqueFd::UniqueFd(int fd) noexcept : fd_(fd) {
  if (fd < 0 || fd > STDERR_FILENO) return;
  fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int reason = errno;
  ::close(fd);
  errno = reason;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace penstock
