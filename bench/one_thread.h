// Helpers of the benchmarks that use one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <penstock/work.h>

namespace penstock::bench {

using Files = std::vector<std::vector<std::byte>>;

/// Returns the bytes of a folder's files, in the order of their paths.
inline Files load_files(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Files files;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    files.emplace_back(bytes, bytes + text.size());
  }
  return files;
}

/// A context for ops that allocates on the heap.
class Context final : public WorkContext {
 public:
  BufferPtr allocate(std::size_t bytes) override { return allocate_buffer(bytes); }
  void set_key(std::uint64_t key) { key_ = key; }
};

/// Returns the CPU time of this thread, so that other work on the machine has little influence.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace penstock::bench
