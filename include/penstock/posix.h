// What file systems, sources and programs that stand on POSIX share: descriptors and errors.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <penstock/error.h>

namespace penstock {

/// Owner of a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// "can't <action>: <the system's reason>" with the path as provenance. ENOENT and its kin are
/// not_found, lack of descriptors, memory or disk is resource_exhausted, the rest unavailable.
Error error_from_errno(int error, std::string_view action, const std::string& path);
/// Writes all of `text`, or returns why not, an errno, and takes back the part that had room.
int write_all(int fd, std::string_view text) noexcept;

/// Tries to lock an open file for its holder, whose end ends the lock, however it ends; see
/// `lock_holder`. Throws Error{unavailable | resource_exhausted} naming `path`.
enum class Locked { yes, by_another, not_supported };
Locked try_lock(int fd, const std::string& path);

}  // namespace penstock
