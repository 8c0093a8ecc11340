#include "pipeline/io/durable.h"

#include <atomic>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/core/kill_point.h"
#include "pipeline/io/posix.h"

namespace penstock {
namespace {

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

/// Of a symbolic link, beside which a relative target begins; empty for anything else.
std::string target_of(const std::string& path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size <= 0) return {};
  target.resize(static_cast<std::size_t>(size));
  return target.front() == '/' ? target : folder_of(path) + "/" + target;
}

}  // namespace

std::string replaceable(const std::string& path) {
  std::string name = path;
  constexpr int kMostLinks = 40;  // as the kernel's
  int links = 0;
  for (std::string next = target_of(name); !next.empty(); next = target_of(name)) {
    if (++links > kMostLinks) throw error_from_errno(ELOOP, "write", path);
    name = std::move(next);
  }
  struct stat st;
  if (::stat(name.c_str(), &st) != 0 || S_ISREG(st.st_mode)) return name;
  if (S_ISDIR(st.st_mode)) throw error_from_errno(EISDIR, "write", path);
  throw Error(ErrorCode::unavailable, "can't write: not a regular file", {.shard = path});
}

DurableFile::DurableFile(const std::string& path, WriteFault fault, std::string temporary)
    : path_(replaceable(path)), fault_(std::move(fault)) {
  const int how = temporary.empty() ? O_EXCL : O_TRUNC;
  const std::string name = temporary.empty() ? temporary_name(path_) : std::move(temporary);
  step("create", [&] {
    fd_ = UniqueFd(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644));
    return static_cast<bool>(fd_);
  });
  temporary_ = name;
}

DurableFile::~DurableFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void DurableFile::step(const char* what, const std::function<bool()>& act) {
  kill_point(what);
  if (const int error = fault_ ? fault_(what) : 0) throw error_from_errno(error, what, path_);
  while (!act()) {
    if (errno != EINTR) throw error_from_errno(errno, what, path_);
  }
}

void DurableFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    step("write", [&] {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
      return written >= 0;
    });
  }
}

void DurableFile::commit(const std::string& keep_as) {
  // EINTR of a sync is an error like any other here: its data may be gone.
  int error = 0;
  step("sync", [&] {
    error = ::fsync(fd_.get()) == 0 ? 0 : errno;
    return true;
  });
  if (error != 0) throw error_from_errno(error, "sync", path_);
  if (!keep_as.empty()) {
    step("keep", [&] { return ::rename(path_.c_str(), keep_as.c_str()) == 0 || errno == ENOENT; });
  }
  step("rename", [&] { return ::rename(temporary_.c_str(), path_.c_str()) == 0; });
  temporary_.clear();
  UniqueFd folder;
  step("sync folder", [&] {
    folder = UniqueFd(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return folder && ::fsync(folder.get()) == 0;
  });
}

}  // namespace penstock
