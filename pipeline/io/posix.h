// Functions and classes that all file systems on POSIX share: open files, identities, errors.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <penstock/file_system.h>
#include <penstock/internal/posix.h>
#include <penstock/limits.h>

#include "pipeline/io/file_root.h"

namespace penstock {

/// Returns the folder of a path's last part: "." if the path names no folder.
std::string folder_of(const std::string& path);

/// Returns the path to which a symbolic link leads if nothing is there; nothing for other paths.
std::optional<std::string> dangling_target(const std::string& path);
/// Returns why a file is missing: "no such file or folder: a.tar", or "a.tar is a link to
/// /mnt/a.tar, which is not there".
std::string missing_text(const std::string& path);

/// The block size of O_DIRECT reads, and their alignment in memory and in the file.
inline constexpr std::size_t kDirectBlock = 1 << 20;
inline constexpr std::size_t kDirectAlignment = 4096;
struct FreeDirect {
  void operator()(std::byte* memory) const noexcept;
};
using DirectBlock = std::unique_ptr<std::byte, FreeDirect>;
/// Returns null if there is no memory.
DirectBlock make_direct_block() noexcept;

/// Holds the numbers of standard streams that are closed, so that descriptors which others open for
/// us get higher ones; see UniqueFd.
class StandardStreamsHeld {
 public:
  StandardStreamsHeld() noexcept;
  StandardStreamsHeld(const StandardStreamsHeld&) = delete;
  StandardStreamsHeld& operator=(const StandardStreamsHeld&) = delete;
  /// Closes them again.
  ~StandardStreamsHeld();

 private:
  std::array<bool, 3> held_{};
};

/// Returns the error of a file that is not the one found at the start.
Error changed_error(const std::string& path);
/// Returns the error of a file that is gone since the start.
Error removed_error(const std::string& path);
/// Throws Error{changed} if a file is not `now` what it was when it was `found`. Where other
/// machines may touch the file, another ctime is a warning. With `trust_data`, it may differ.
void check_unchanged(const std::string& path, const FileInfo& found,
                     const std::optional<FileInfo>& now, bool trust_data);
/// Returns the error of a request beyond the end of a file.
Error past_end_error(const std::string& path, std::uint64_t file_size, const ReadRequest& request);

/// pread(2), or its replacement in a test.
using PreadFn = std::function<std::int64_t(int fd, void* out, std::size_t size, std::int64_t at)>;

struct OpenedFile {
  UniqueFd fd;
  FileInfo info;
};
/// Throws as `PosixFile` does.
OpenedFile open_regular(const std::string& path, const FileRoot& root = *system_root());
/// Returns the identity of a file with this status.
FileInfo info_of(const struct stat& status) noexcept;
/// Return the current identity of a file; nothing if it was removed.
std::optional<FileInfo> info_of_open(int fd) noexcept;
std::optional<FileInfo> info_of_path(const std::string& path, const FileRoot& root) noexcept;
/// Reads the rest of `request`, of which `done` bytes are read, from the file `path`, which is open
/// as `fd` and has `size` bytes. Handles short reads and EINTR.
Status read_rest(int fd, const std::string& path, std::uint64_t size, const ReadRequest& request,
                 std::size_t done, const PreadFn& pread);

/// An open regular file. Thread-safe.
class PosixFile : public File {
 public:
  /// Throws Error{not_found} (also for what is not a regular file), Error{resource_exhausted} or
  /// Error{unavailable}.
  explicit PosixFile(const std::string& path, PreadFn pread = {},
                     const FileRoot& root = *system_root());

  const FileInfo& info() const noexcept override { return info_; }
  std::optional<FileInfo> now() const noexcept override { return info_of_open(fd_.get()); }
  const std::string& path() const noexcept override { return path_; }
  /// Carries out one request after the other by pread. Handles short reads and EINTR.
  void read(std::span<ReadRequest> requests) override;
  /// Does the same but bypasses the page cache, to read the bytes that are on the device.
  void read_uncached(std::span<ReadRequest> requests) override;

 protected:
  int fd() const noexcept { return fd_.get(); }
  /// Reads `request` from `done` bytes on.
  Status read_rest(const ReadRequest& request, std::size_t done) const {
    return penstock::read_rest(fd(), path_, info_.size, request, done, pread_);
  }

 private:
  PosixFile(const std::string& path, PreadFn pread, OpenedFile opened);

  std::string path_;
  PreadFn pread_;
  UniqueFd fd_;
  FileInfo info_;
};

}  // namespace penstock
