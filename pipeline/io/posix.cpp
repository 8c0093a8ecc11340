#include "pipeline/io/posix.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <penstock/internal/slow_work.h>
#include <penstock/log.h>
#include <penstock/remote_files.h>

#include "pipeline/core/waits.h"
#include "pipeline/io/fs_support.h"
#include "pipeline/io/url.h"

namespace penstock {
namespace {

std::int64_t ns_of(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

ErrorCode code_of(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return ErrorCode::not_found;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::resource_exhausted;
    default:
      return ErrorCode::unavailable;
  }
}

/// Returns the error of a path that begins like "s3://"; nothing for other paths.
std::optional<Error> scheme_error(const std::string& path) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-";
  const std::size_t end = path.find_first_not_of(kLetters);
  if (end == 0 || end == path.npos || path.compare(end, 3, "://") != 0) return std::nullopt;
  struct stat st {};
  if (::stat(path.substr(0, end + 1).c_str(), &st) == 0) return std::nullopt;
  const std::string scheme = path.substr(0, end + 3);
  if (is_remote(path))
    return Error(
        ErrorCode::invalid_argument,
        scheme +
            (http::is_http(path)
                 ? " is for reading data only: "
                 : " is for data, the output of pack and synth, states and checkpoints only: ") +
            "give a path on this machine, or on a mounted file system",
        {.shard = hide_secrets(path)});
  const std::string instead = scheme == "file://"
                                  ? "give the path alone, " + path.substr(scheme.size())
                                  : "give a path on this machine, or on a mounted file system";
  return Error(ErrorCode::invalid_argument, scheme + " is not supported by this build: " + instead,
               {.shard = path});
}

/// Removes the last written bytes from a file, unless others were written after them, or it is a
/// pipe.
void take_back(int fd, off_t bytes) noexcept {
  struct stat st {};
  const off_t end = ::lseek(fd, 0, SEEK_CUR);
  if (bytes == 0 || end < bytes || ::fstat(fd, &st) != 0 || st.st_size != end) return;
  if (::ftruncate(fd, end - bytes) == 0) ::lseek(fd, end - bytes, SEEK_SET);
}

}  // namespace

FileInfo info_of(const struct stat& st) noexcept {
  return {.size = static_cast<std::uint64_t>(st.st_size),
          .mtime_ns = ns_of(st.st_mtim),
          .inode = static_cast<std::uint64_t>(st.st_ino),
          .ctime_ns = ns_of(st.st_ctim),
          .device = static_cast<std::uint64_t>(st.st_dev)};
}

StandardStreamsHeld::StandardStreamsHeld() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (opened == fd) {
      held_[static_cast<std::size_t>(fd)] = true;
    } else if (opened >= 0) {
      ::close(opened);  // another thread was faster
    }
  }
}

StandardStreamsHeld::~StandardStreamsHeld() {
  for (std::size_t fd = 0; fd < held_.size(); ++fd)
    if (held_[fd]) ::close(static_cast<int>(fd));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::optional<std::string> dangling_target(const std::string& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0 || !S_ISLNK(st.st_mode)) return {};
  if (::stat(path.c_str(), &st) == 0 || errno != ENOENT) return {};
  // The last link of a chain names what is missing. The kernel follows 40 links.
  std::filesystem::path target(path);
  for (int links = 0; links < 40; ++links) {
    std::error_code none;
    const std::filesystem::path next = std::filesystem::read_symlink(target, none);
    if (none) break;
    target = target.parent_path() / next;
  }
  return target.string();
}

std::string missing_text(const std::string& path) {
  const std::optional<std::string> target = is_remote(path) ? std::nullopt : dangling_target(path);
  return target ? path + " is a link to " + *target + ", which does not exist"
                : "no such file or folder: " + path;
}

void FreeDirect::operator()(std::byte* memory) const noexcept {
  std::free(memory);
}

DirectBlock make_direct_block() noexcept {
  return DirectBlock(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, kDirectBlock)));
}

void refuse_scheme(const std::string& path) {
  if (const std::optional<Error> error = scheme_error(path)) throw *error;
}

Error error_from_errno(int error, std::string_view action, const std::string& path) {
  if (error == ENOENT) {
    if (std::optional<Error> scheme = scheme_error(path)) return *std::move(scheme);
    if (const std::optional<std::string> target = dangling_target(path))
      return Error(code_of(error),
                   "can't " + std::string(action) + ": this is a link to " + *target +
                       ", which does not exist",
                   {.shard = path});
  }
  return Error(code_of(error),
               "can't " + std::string(action) + ": " + std::generic_category().message(error),
               {.shard = path});
}

int write_all(int fd, std::string_view text) noexcept {
  slow_work("a file is written");
  off_t taken = 0;
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      const int reason = errno;
      take_back(fd, taken);
      return reason;
    }
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written > 0) taken += written;
  }
  return 0;
}

Error changed_error(const std::string& path) {
  if (!is_remote(path))
    return Error(ErrorCode::changed, "the file has changed since it was found", {.shard = path});
  return Error(ErrorCode::changed,
               "the object has changed since it was found: its size or its ETag is another; if the "
               "store gives one object several ETags, --trust-data (RemoteOptions::trust_dates) "
               "compares Last-Modified",
               {.shard = path});
}

Error removed_error(const std::string& path) {
  return Error(ErrorCode::changed, "the file was removed since it was found", {.shard = path});
}

void check_unchanged(const std::string& path, const FileInfo& found,
                     const std::optional<FileInfo>& now, bool trust_data) {
  if (now != found) throw changed_error(path);
  if (trust_data || !now->touched_since(found)) return;
  if (!fs_traits(path).own_ctimes) {
    log_once(LogLevel::warning, "ctime of a server",
             path +
                 ": the file server has changed the ctime of a file in use, as a rename or chmod "
                 "there does; its size and mtime are unchanged, so reading continues");
    return;
  }
  throw Error(ErrorCode::changed,
              "the file's ctime has changed since it was found: it was renamed, linked or given "
              "other permissions, or it was written and its mtime set back; if the contents are "
              "the same, --trust-data (RunOptions::trust_data) reads it anyway",
              {.shard = path});
}

Error past_end_error(const std::string& path, std::uint64_t file_size, const ReadRequest& request) {
  return Error(ErrorCode::data_loss,
               "the file ends at byte " + std::to_string(file_size) + ", within the " +
                   std::to_string(request.size) + " bytes to be read",
               {.shard = path, .offset = static_cast<std::int64_t>(request.offset)});
}

OpenedFile open_regular(const std::string& path, const FileRoot& root) {
  // O_NONBLOCK: opening a pipe without a writer must not hang.
  UniqueFd fd;
  do {
    fd = root.open(path, O_RDONLY | O_NONBLOCK);
  } while (!fd && errno == EINTR);
  if (!fd) throw root.error(errno, "open", path);
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) throw root.error(errno, "examine", path);
  if (S_ISDIR(st.st_mode))
    throw Error(ErrorCode::not_found,
                "can't read: Is a directory; name the files in it, such as " + path +
                    (path.ends_with('/') ? "*" : "/*"),
                {.shard = path});
  if (!S_ISREG(st.st_mode))
    throw Error(ErrorCode::not_found, "not a regular file", {.shard = path});
  // Files of /proc report size 0, and would be taken for empty files.
  char byte;
  if (st.st_size == 0 && ::pread(fd.get(), &byte, 1, 0) > 0)
    throw Error(
        ErrorCode::invalid_argument,
        "the system generates this file while it is read, so its size is unknown: copy it first",
        {.shard = path});
  return {std::move(fd), info_of(st)};
}

std::optional<FileInfo> info_of_open(int fd) noexcept {
  struct stat st;
  if (::fstat(fd, &st) != 0 || st.st_nlink == 0) return {};
  return info_of(st);
}

std::optional<FileInfo> info_of_path(const std::string& path, const FileRoot& root) noexcept {
  struct stat st;
  if (root.stat(path, st) != 0) return {};
  return info_of(st);
}

namespace {

/// Works like pread(2), and counts whether the page cache answered. RWF_NOWAIT fails where it would
/// wait, and where the file system does not know it. A small read is not counted, because asking
/// would cost 5 % of it, and its memory seldom is fresh, so it waits only for the device.
std::int64_t counted_pread(int fd, std::byte* out, std::size_t size, std::int64_t at) {
  constexpr std::size_t kSmall = 4096;
  if (size <= kSmall) return ::pread(fd, out, size, at);
  const iovec to{out, size};
  const std::int64_t cached = ::preadv2(fd, &to, 1, at, RWF_NOWAIT);
  if (cached > 0) {
    ++file_reads().cached;
    return cached;
  }
  ++file_reads().others;
  return ::pread(fd, out, size, at);
}

}  // namespace

Status read_rest(int fd, const std::string& path, std::uint64_t size, const ReadRequest& request,
                 std::size_t done, const PreadFn& pread) {
  slow_work("a file is read");
  if (request.offset > size || request.size > size - request.offset)
    return past_end_error(path, size, request);
  int patience = 1000;  // milliseconds of EAGAIN, which some network file systems give
  while (done < request.size) {
    std::byte* const out = request.out + done;
    const std::size_t wanted = request.size - done;
    const auto at = static_cast<std::int64_t>(request.offset + done);
    const std::int64_t got =
        pread ? pread(fd, out, wanted, at) : counted_pread(fd, out, wanted, at);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {  // it was longer when it was found
      return Error(ErrorCode::changed,
                   "the file has changed since it was found: it ends at byte " +
                       std::to_string(at) + ", within the " + std::to_string(request.size) +
                       " bytes to be read",
                   {.shard = path, .offset = static_cast<std::int64_t>(request.offset)});
    } else if (errno == EAGAIN && --patience > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (errno == ESTALE) {  // another client of the server replaced or removed it
      return removed_error(path);
    } else if (errno != EINTR) {
      const Error error = error_from_errno(errno, "read", path);
      return Error(error.code(), error.cause(), {.shard = path, .offset = at});
    }
  }
  return {};
}

PosixFile::PosixFile(const std::string& path, PreadFn pread, const FileRoot& root)
    : PosixFile(path, std::move(pread), open_regular(path, root)) {}

PosixFile::PosixFile(const std::string& path, PreadFn pread, OpenedFile opened)
    : path_(path), pread_(std::move(pread)), fd_(std::move(opened.fd)), info_(opened.info) {}

void PosixFile::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) request.status = read_rest(request, 0);
}

void PosixFile::read_uncached(std::span<ReadRequest> requests) {
  // Through /proc, so that it is this file even if the path now names another.
  const std::string self = "/proc/self/fd/" + std::to_string(fd_.get());
  const UniqueFd direct(::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  const DirectBlock block = make_direct_block();
  if (!direct || block == nullptr) return read(requests);
  for (ReadRequest& request : requests) {
    std::size_t done = 0;
    while (done < request.size) {
      const std::uint64_t at = request.offset + done;
      const std::uint64_t aligned = at / kDirectAlignment * kDirectAlignment;
      const auto got =
          ::pread(direct.get(), block.get(), kDirectBlock, static_cast<std::int64_t>(aligned));
      if (got < 0 && errno == EINTR) continue;
      if (got <= static_cast<std::int64_t>(at - aligned)) break;
      const std::size_t n = std::min<std::size_t>(got - (at - aligned), request.size - done);
      std::memcpy(request.out + done, block.get() + (at - aligned), n);
      done += n;
    }
    request.status = read_rest(request, done);
  }
}

}  // namespace penstock
