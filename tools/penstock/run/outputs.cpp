#include "tools/penstock/run/outputs.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/durable_file.h>

#include "pipelines/usage_error.h"

namespace penstock::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kUntilRead{5};
constexpr std::chrono::milliseconds kBetweenTries{10};

/// True for files that a rename can't replace: devices, pipes, and files that a process has open.
bool is_in_place(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return false;
  if (!S_ISREG(st.st_mode)) return !S_ISDIR(st.st_mode);
  for (const std::string& name : {path, follow_links(path)})
    if (name.starts_with("/dev/fd/") || name.starts_with("/proc/")) return true;
  return false;
}

bool are_one(const std::string& a, const std::string& b) {
  if (a == b) return true;
  struct stat of_a {};
  struct stat of_b {};
  const auto same_time = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  // The number alone is not enough: some file systems give all files the same.
  if (::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0)
    return of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino &&
           of_a.st_size == of_b.st_size && same_time(of_a.st_mtim, of_b.st_mtim) &&
           same_time(of_a.st_ctim, of_b.st_ctim);
  std::error_code error;
  const auto place = [&error](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(follow_links(path), error), error);
  };
  const fs::path place_of_a = place(a);
  return !error && place_of_a == place(b) && !error;
}

bool is_device(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISCHR(st.st_mode);
}

}  // namespace

void check_distinct(const std::vector<Output>& outputs) {
  for (std::size_t b = 0; b < outputs.size(); ++b) {
    if (outputs[b].path.empty() || is_device(outputs[b].path)) continue;
    for (std::size_t a = 0; a < b; ++a)
      if (!outputs[a].path.empty() && are_one(outputs[a].path, outputs[b].path))
        throw UsageError("names the same file as " + outputs[a].flag + ": " + outputs[b].path,
                         outputs[b].flag);
  }
}

void check_output(const std::string& path, const std::vector<std::string>& folders_made) {
  if (path.empty() || path == "-") return;
  std::error_code error;
  const auto plain = [&](const std::string& name) {
    const fs::path normal = fs::absolute(name, error).lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  };
  for (const std::string& folder : folders_made) {
    if (folder.empty()) continue;
    if (plain(path) == plain(folder)) throw error_from_errno(EISDIR, "write", path);
    if (plain(path).parent_path() == plain(folder)) return;
  }
  // Does not open a pipe: its reader would take the close for the end of the data.
  if (!is_in_place(path)) check_writable(path);
}

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw error_from_errno(errno, "write", path);
    return;
  }
  if (!is_in_place(path)) return write_durably(path, text);
  const UniqueFd fd = open_in_place(path);
  // EINVAL: not a file, so it can't be cut.
  if (::ftruncate(fd.get(), 0) != 0 && errno != EINVAL)
    throw error_from_errno(errno, "write", path);
  if (const int reason = write_all(fd.get(), text)) throw error_from_errno(reason, "write", path);
}

UniqueFd open_in_place(const std::string& path) {
  const auto until = Clock::now() + kUntilRead;
  for (;;) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
    if (fd) {
      const int how = ::fcntl(fd.get(), F_GETFL);
      if (how < 0 || ::fcntl(fd.get(), F_SETFL, how & ~O_NONBLOCK) != 0)
        throw error_from_errno(errno, "write", path);
      return fd;
    }
    if (errno == ENXIO && Clock::now() >= until)
      throw Error(ErrorCode::unavailable, "can't write: no process reads the pipe",
                  {.shard = path});
    if (errno != ENXIO && errno != EINTR) throw error_from_errno(errno, "write", path);
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace penstock::tool
