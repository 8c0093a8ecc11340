// Files that TensorBoard reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/internal/posix.h>

namespace penstock::tool {

/// Values, each with its tag.
using Scalars = std::vector<std::pair<std::string, double>>;

/// Return records of such a file, with a time in seconds since 1970: the first one, scalars, and
/// the start of a run at a step. TensorBoard drops what earlier files of the folder have from that
/// step on.
std::string first_event(double wall_time);
std::string start_event(std::uint64_t step, double wall_time);
std::string scalar_event(std::uint64_t step, double wall_time, const Scalars& scalars);

/// A file of scalars over steps, in a folder that TensorBoard reads: TFRecords of tensorflow.Event
/// messages. Source: tensorflow/core/util/event.proto and framework/summary.proto. Records are
/// always complete, also when the disk is full. The first failed write is logged once, and ends the
/// file. TensorBoard reads the files of a folder in the order of their names; this one comes last.
/// Not synchronised.
class EventFile {
 public:
  /// Creates the folder, and in it a file with a unique name. It says that a run starts, whose
  /// first event has the step `first_step`. Throws Error{unavailable | not_found}, and
  /// Error{resource_exhausted} if there is no room for the folder.
  EventFile(const std::string& folder, std::uint64_t first_step);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile() { flush(); }

  /// Adds scalars at a time in seconds since 1970.
  void add(std::uint64_t step, double wall_time, const Scalars& scalars);
  /// Gives what was added to the system, so that it outlives the process.
  void flush() noexcept;

 private:
  void write(std::string_view record);
  void give_up(const Error& error);

  std::string path_;
  UniqueFd fd_;  // none after a failed write
  std::string buffer_;
};

}  // namespace penstock::tool
