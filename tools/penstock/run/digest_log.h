// The file that `--digests` names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/internal/posix.h>

namespace penstock::tool {

/// A file with a line `epoch batch elements digest` for each batch, which no other run may write at
/// the same time. The first line is written at once, to show that batches arrive. Later lines are
/// buffered: if the process dies, lines that were not flushed are lost. Lines are always complete,
/// also when the disk is full. Members throw Error{unavailable | resource_exhausted} that names the
/// file. Used by one thread.
class DigestLog {
 public:
  /// Creates a file, or empties an old one; see open_in_place.
  explicit DigestLog(std::string path);
  /// Resumes an old file after its first `bytes`, and cuts off the rest.
  DigestLog(std::string path, std::uint64_t bytes);

  void add(std::uint64_t epoch, std::uint64_t batch, std::uint64_t elements, std::uint64_t digest);
  /// Writes to the system: flushed lines survive the death of the process.
  void flush();
  /// Writes to the disk: synced lines survive a failure of the machine.
  void sync();
  /// Returns the size of the file, including lines that are not flushed.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
  bool begun_ = false;  // a line was written
  std::uint64_t bytes_ = 0;
};

/// A line of the file.
struct DigestLine {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t elements = 0;
  std::uint64_t digest = 0;
};

/// Returns the lines in the first `bytes` of such a file; UINT64_MAX: of all of it. Throws
/// Error{data_loss} if the file is shorter, or if a line is malformed.
std::vector<DigestLine> digests_in(const std::string& path, std::uint64_t bytes = UINT64_MAX);

}  // namespace penstock::tool
