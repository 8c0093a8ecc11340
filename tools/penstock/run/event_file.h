// What TensorBoard reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/posix.h>

namespace penstock::tool {

/// A file of scalars over steps, in a folder that TensorBoard is pointed at: TFRecords of
/// tensorflow.Event messages. Source: tensorflow/core/util/event.proto and framework/summary.proto.
/// Records are whole, also where the disk is full: what can't be written is said through the log,
/// once, and is the last. Not synchronised.
class EventFile {
 public:
  /// Makes the folder and in it a file of a name of its own. Throws Error{unavailable | not_found},
  /// and Error{resource_exhausted} if there is no room for the folder.
  explicit EventFile(const std::string& folder);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile() { flush(); }

  /// At a point of time in seconds since 1970.
  void add(std::uint64_t step, double wall_time,
           const std::vector<std::pair<std::string, double>>& scalars);
  void flush() noexcept;

 private:
  void write(std::string_view message);
  void give_up(const Error& error);

  std::string path_;
  UniqueFd fd_;  // none once it can't be written
  std::string buffer_;
};

}  // namespace penstock::tool
