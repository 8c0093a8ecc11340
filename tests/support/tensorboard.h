// The points that TensorBoard shows of a folder of event files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/files.h"

namespace penstock::test {

/// The fields of a protobuf message, in the wire format
/// (https://protobuf.dev/programming-guides/encoding).
class WireFields {
 public:
  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;     ///< of a varint
    std::string_view text = {};  ///< of a message, a text or a fixed number
  };
  explicit WireFields(std::string_view message) : left_(message) {}

  std::optional<Field> next() {
    if (left_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field{.number = key >> 3};
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.text = take(8);
        break;
      case 2:
        field.text = take(varint());
        break;
      case 5:
        field.text = take(4);
        break;
      default:
        throw std::runtime_error("an unknown wire type");
    }
    return field;
  }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > left_.size()) throw std::runtime_error("the message is too short");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view left_;
};

/// The number of points at each step, for each tag.
using ShownPoints = std::map<std::string, std::map<std::uint64_t, int>>;

/// Reads one file as TensorBoard does: a start drops what is there from its step on. Source:
/// tensorboard/backend/event_processing/event_accumulator.py, for files of version 2.
inline void show_events(std::string_view file, ShownPoints& points) {
  while (file.size() >= 12) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, file.data(), sizeof(bytes));
    if (file.size() < bytes + 16) break;  // it was killed while it wrote
    WireFields event(file.substr(12, bytes));
    file.remove_prefix(bytes + 16);
    std::uint64_t step = 0;
    while (const auto field = event.next()) {
      if (field->number == 2) step = field->value;
      if (field->number == 7) {
        for (auto& [tag, steps] : points) steps.erase(steps.lower_bound(step), steps.end());
      }
      if (field->number != 5) continue;
      WireFields summary(field->text);
      while (const auto value = summary.next())
        ++points[std::string(WireFields(value->text).next()->text)][step];
    }
  }
}

/// Returns what TensorBoard shows of the event files in a folder, which it reads in the order of
/// their names. A run that was killed as it began leaves an empty one.
inline ShownPoints shown_points(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ShownPoints points;
  for (const std::filesystem::path& file : files) show_events(read_file(file), points);
  return points;
}

}  // namespace penstock::test
