#include "pipeline/io/durable.h"

#include <cerrno>
#include <climits>
#include <optional>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/internal/slow_work.h>

#include "pipeline/core/kill_point.h"
#include "pipeline/io/fs_support.h"

namespace penstock {
namespace {

/// Returns the target of a symbolic link; a relative one is resolved in the link's folder. Empty
/// for anything else.
std::string target_of(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size <= 0) return {};
  target.resize(static_cast<std::size_t>(size));
  return target.front() == '/' ? target : folder_of(path) + "/" + target;
}

/// Returns the mode of the file to be replaced; nothing if there is none.
std::optional<mode_t> mode_at(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return std::nullopt;
  return st.st_mode & 0777;
}

/// Returns why this process may not write to a file that exists; 0 if it may.
int why_read_only(const std::string& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return 0;
  if (!is_unsupported(FsCall::check_access, errno)) return errno;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));  // changes nothing
  return fd ? 0 : errno;
}

}  // namespace

std::string follow_links(const std::string& path) {
  std::string name = path;
  constexpr int kMostLinks = 40;  // the kernel's limit
  int links = 0;
  for (std::string next = target_of(name); !next.empty(); next = target_of(name)) {
    if (++links > kMostLinks) throw error_from_errno(ELOOP, "write", path);
    name = std::move(next);
  }
  return name;
}

std::string replaceable(const std::string& path) {
  std::string name = follow_links(path);
  struct stat st {};
  if (::stat(name.c_str(), &st) != 0) return name;
  if (S_ISDIR(st.st_mode)) throw error_from_errno(EISDIR, "write", path);
  if (!S_ISREG(st.st_mode))
    throw Error(ErrorCode::unavailable, "can't write: not a regular file", {.shard = path});
  return name;
}

void write_durably(const std::string& path, std::string_view contents) {
  DurableFile file(path);
  file.append(std::as_bytes(std::span(contents)));
  file.commit();
}

void check_writable(const std::string& path) {
  const DurableFile can_be_written(path);
}

DurableFile::DurableFile(const std::string& path, WriteFault fault, PartialOptions options)
    : path_(replaceable(path)), fault_(std::move(fault)), resumable_(options.resumable) {
  const std::optional<mode_t> mode = mode_at(path_);
  // A rename needs no write permission for the file, so it is checked here.
  if (mode)
    if (const int error = why_read_only(path_)) throw error_from_errno(error, "write", path_);
  step("create", [&] {
    partial_ = make_partial(path_, mode.value_or(0666), options);
    return true;
  });
  struct stat st {};
  // The umask does not apply to a file that existed before.
  if (mode && ::fstat(partial_.fd.get(), &st) == 0 && (st.st_mode & 0777) != *mode &&
      ::fchmod(partial_.fd.get(), *mode) != 0 && !is_unsupported(FsCall::set_mode, errno)) {
    const int error = errno;
    if (!resumable_) ::unlink(partial_.name.c_str());
    throw error_from_errno(error, "set the mode", path_);
  }
}

// Removed while it is still locked, so that it is no other writer's.
DurableFile::~DurableFile() {
  if (!partial_.name.empty() && !resumable_) ::unlink(partial_.name.c_str());
}

std::size_t DurableFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(partial_.fd.get(), out.data() + done, out.size() - done,
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno != EINTR) throw error_from_errno(errno, "read", partial_.name);
    if (n == 0) break;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return done;
}

void DurableFile::keep(std::uint64_t size) {
  const auto at = static_cast<off_t>(size);
  step("cut", [&] { return ::ftruncate(partial_.fd.get(), at) == 0; });
  step("seek", [&] { return ::lseek(partial_.fd.get(), at, SEEK_SET) == at; });
}

void DurableFile::step(const char* what, const std::function<bool()>& act) {
  slow_work("a file is written");
  kill_point(what);
  if (const int error = fault_ ? fault_(what) : 0) throw error_from_errno(error, what, path_);
  while (!act()) {
    if (errno != EINTR) throw error_from_errno(errno, what, path_);
  }
}

void DurableFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    step("write", [&] {
      const ssize_t written = ::write(partial_.fd.get(), bytes.data(), bytes.size());
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
      return written >= 0;
    });
  }
}

void DurableFile::commit(const std::string& keep_as) {
  int error = 0;
  step("sync", [&] {
    error = sync_file(partial_.fd.get(), path_);
    return true;
  });
  if (error != 0) throw error_from_errno(error, "sync", path_);
  if (!keep_as.empty()) {
    step("keep", [&] { return ::rename(path_.c_str(), keep_as.c_str()) == 0 || errno == ENOENT; });
  }
  step("rename", [&] { return ::rename(partial_.name.c_str(), path_.c_str()) == 0; });
  partial_.name.clear();
  step("sync folder", [&] {
    error = sync_folder_of(path_);
    return true;
  });
  if (error != 0) throw error_from_errno(error, "sync folder", path_);
}

}  // namespace penstock
