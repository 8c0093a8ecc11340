// The file of --digests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <penstock/posix.h>

namespace penstock::tool {

/// Lines `epoch batch elements digest`, one for each batch, in a file that no other run writes
/// meanwhile. The first line is written at once, to show that batches arrive. Later ones are
/// buffered; what was not flushed when the process dies is lost. Lines are whole, also where the
/// disk is full. Members throw Error{unavailable | resource_exhausted} naming the file.
/// Used by one thread.
class DigestLog {
 public:
  /// A new file, or an old one emptied; see open_in_place.
  explicit DigestLog(std::string path);
  /// Goes on behind the first `bytes` of an old file; the rest is cut off.
  DigestLog(std::string path, std::uint64_t bytes);

  void add(std::uint64_t epoch, std::uint64_t batch, std::uint64_t elements, std::uint64_t digest);
  /// To the system: what is flushed outlives the process.
  void flush();
  /// To the disk: it outlives the machine.
  void sync();
  /// Of the file, with what is not flushed.
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

/// The lines in the first `bytes` of such a file, UINT64_MAX: in all of it. Throws
/// Error{data_loss} if it is shorter, or for anything that is no such line.
std::vector<DigestLine> digests_in(const std::string& path, std::uint64_t bytes = UINT64_MAX);

}  // namespace penstock::tool
