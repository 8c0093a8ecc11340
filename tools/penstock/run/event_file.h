// What TensorBoard reads.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::tool {

/// A file of scalars over steps, in a folder that TensorBoard is pointed at: TFRecords of
/// tensorflow.Event messages. Source: tensorflow/core/util/event.proto and framework/summary.proto.
/// Not synchronised.
class EventFile {
 public:
  /// Makes the folder and in it a file of a name of its own. Throws Error{unavailable}.
  explicit EventFile(const std::string& folder);
  /// At a point of time in seconds since 1970.
  void add(std::uint64_t step, double wall_time,
           const std::vector<std::pair<std::string, double>>& scalars);
  void flush() { out_.flush(); }

 private:
  void write(std::string_view message);

  std::ofstream out_;
};

}  // namespace penstock::tool
