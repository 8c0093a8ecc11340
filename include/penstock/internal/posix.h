// File descriptors and errors of POSIX, for file systems, sources and programs.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <penstock/error.h>

namespace penstock {

/// The owner of a file descriptor, which is never one of 0 to 2. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes over `fd`. While standard streams are closed, the system gives out their numbers, and
  /// what a program prints would go into the file that got one. So a descriptor of 0 to 2 is
  /// replaced by a higher one. If that fails, there is none, and errno says why. Keeps errno if
  /// `fd` is negative.
  explicit UniqueFd(int fd) noexcept;
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  /// Closes it.
  ~UniqueFd();

  /// Returns the descriptor, or -1.
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives up the descriptor without closing it, and returns it.
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Throws Error{invalid_argument} that names the scheme if `path` is such as "s3://bucket/…", which
/// is not a local path. Does nothing if a folder "s3:" exists.
void refuse_scheme(const std::string& path);
/// Returns an error "can't <action>: <the system's reason>" with the path as provenance. ENOENT and
/// similar codes are not_found; lack of descriptors, memory or disk is resource_exhausted; the rest
/// is unavailable. A missing path with a scheme is refused as by `refuse_scheme`.
Error error_from_errno(int error, std::string_view action, const std::string& path);
/// Writes all of `text`, or returns the errno that stopped it, and removes the part that was
/// written.
int write_all(int fd, std::string_view text) noexcept;
/// Syncs an open file. Where the file system can't sync files, the log says so once, and the file
/// counts as synced; so do pipes and terminals. Returns 0, or the errno of a failure: bytes may be
/// lost then, and another try would hide that.
int sync_file(int fd, const std::string& path) noexcept;

/// The result of `try_lock`.
enum class Locked { yes, by_another, not_supported };
/// Tries to lock an open file for its holder. The lock ends when the holder ends, for whatever
/// reason; see `lock_holder`. On NFSv4, `fd` must be open for writing. Where the file system has no
/// locks, the log says so once. Throws Error{unavailable | resource_exhausted} naming `path`.
Locked try_lock(int fd, const std::string& path);

}  // namespace penstock
