#include "pipeline/io/exclusive_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/io/durable.h"
#include "pipeline/io/posix.h"

namespace penstock {
namespace {

/// False if the name now stands for another file, because its writer committed it in between.
bool still_named(int fd, const std::string& name) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(name.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

ExclusiveFile::ExclusiveFile(const std::string& path, bool resumable)
    : path_(replaceable(path)), partial_(path_ + ".partial"), resumable_(resumable) {
  do {
    fd_ = UniqueFd(::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd_) throw error_from_errno(errno, "create", partial_);
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) throw error_from_errno(errno, "lock", partial_);
      throw Error(ErrorCode::unavailable, "another run is writing the file",
                  Provenance{path_, -1, -1, {}});
    }
  } while (!still_named(fd_.get(), partial_));
  if (!resumable_) keep(0);
  buffer_.reserve(kBuffer);
}

// Removed while it is still locked, so that no other writer's is.
ExclusiveFile::~ExclusiveFile() {
  if (fd_ && !committed_ && !resumable_) ::unlink(partial_.c_str());
}

std::size_t ExclusiveFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno != EINTR) throw error_from_errno(errno, "read", partial_);
    if (n == 0) break;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return done;
}

void ExclusiveFile::keep(std::uint64_t size) {
  const auto at = static_cast<off_t>(size);
  if (::ftruncate(fd_.get(), at) != 0) throw error_from_errno(errno, "truncate", partial_);
  if (::lseek(fd_.get(), at, SEEK_SET) != at) throw error_from_errno(errno, "seek", partial_);
  size_ = size;
}

void ExclusiveFile::append(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kBuffer - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(),
                   bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (buffer_.size() == kBuffer) flush();
  }
}

void ExclusiveFile::flush() {
  const auto* text = reinterpret_cast<const char*>(buffer_.data());
  const int reason = write_all(fd_.get(), {text, buffer_.size()});
  if (reason != 0) throw error_from_errno(reason, "write", partial_);
  buffer_.clear();
}

void ExclusiveFile::commit() {
  flush();
  // A failed sync is never tried again: the kernel may have dropped the data.
  if (::fsync(fd_.get()) != 0) throw error_from_errno(errno, "sync", partial_);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    throw error_from_errno(errno, "rename", partial_);
  }
  committed_ = true;
  const UniqueFd folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) throw error_from_errno(errno, "sync", path_);
}

}  // namespace penstock
