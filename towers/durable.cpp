#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/error.h>

#include "towers/checkpoint.h"

namespace penstock::towers {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* what) {
  const int code = errno;
  throw Error(
      code == ENOSPC || code == EDQUOT ? ErrorCode::resource_exhausted : ErrorCode::unavailable,
      "can't " + std::string(what) + " " + path + ": " + std::generic_category().message(code));
}

/// Closed at the end of the scope.
class FileDescriptor {
 public:
  FileDescriptor(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) refuse(path, "open");
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { ::close(fd_); }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, const std::string& contents, const std::string& path) {
  for (std::size_t at = 0; at < contents.size();) {
    const ssize_t written = ::write(fd, contents.data() + at, contents.size() - at);
    if (written < 0 && errno != EINTR) refuse(path, "write");
    if (written > 0) at += static_cast<std::size_t>(written);
  }
}

}  // namespace

void write_durably(const std::string& path, const std::string& contents) {
  std::error_code absent;
  const std::filesystem::file_status there = std::filesystem::status(path, absent);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    throw Error(ErrorCode::invalid_argument, "can't replace " + path + ": it is no regular file");
  const std::string temporary = path + ".part";
  const std::string parent = std::filesystem::path(path).parent_path().string();
  try {
    {
      const FileDescriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
      write_all(file.get(), contents, temporary);
      // A sync that failed is never done again: what it should have written may be gone.
      if (::fsync(file.get()) != 0) refuse(temporary, "sync");
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) refuse(path, "rename to");
    const FileDescriptor folder(parent.empty() ? "." : parent, O_RDONLY | O_DIRECTORY);
    if (::fsync(folder.get()) != 0) refuse(parent, "sync");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace penstock::towers
