#include "tools/penstock/support/process.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include <sched.h>
#include <sys/resource.h>

#include <penstock/error.h>

namespace penstock::tool {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::uint64_t peak_resident_bytes() {
  // Not ru_maxrss: that survives exec, and so counts whoever started this process.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

namespace {

struct Close {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, Close>;

Error cannot_write(const std::string& path) {
  return Error(ErrorCode::unavailable, "can't write: " + std::generic_category().message(errno),
               Provenance{path});
}

}  // namespace

void write_output(const std::string& path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw cannot_write(path);
    return;
  }
  const FilePtr file(std::fopen(path.c_str(), "wb"));
  if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fflush(file.get()) != 0)
    throw cannot_write(path);
}

void check_output(const std::string& path, const std::vector<std::string>& folders_made) {
  if (path.empty() || path == "-") return;
  std::error_code error;
  const auto plain = [&](const std::string& name) {
    return std::filesystem::absolute(name, error).lexically_normal().string();
  };
  for (const std::string& folder : folders_made)
    if (!folder.empty() && plain(path).starts_with(plain(folder))) return;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const bool is_new = !exists(status);
  // Whoever reads a pipe would take a second opening for the end.
  if (!is_new && !is_regular_file(status) && !is_directory(status)) return;
  if (!FilePtr(std::fopen(path.c_str(), "ab"))) throw cannot_write(path);
  if (is_new) std::filesystem::remove(path, error);
}

}  // namespace penstock::tool
