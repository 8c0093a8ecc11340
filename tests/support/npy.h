// Files of NumPy arrays. Source: numpy.lib.format, version 1.0.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace penstock::test {

/// Returns a file. `type`: such as "<f4"; `data`: the values, row-major.
inline std::string npy_of(const std::string& type, const std::vector<std::int64_t>& shape,
                          const std::string& data) {
  std::string sizes;
  for (const std::int64_t size : shape) sizes += std::to_string(size) + ",";
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + data;
}

/// Returns a file of integers. `type` gives their size: "<i8", "<i4" or "|u1".
inline std::string npy_of_labels(const std::string& type, const std::vector<int>& labels) {
  const int bytes = type.back() - '0';
  std::string data;
  for (const int label : labels)
    for (int at = 0; at < bytes; ++at)
      data += static_cast<char>((static_cast<std::uint64_t>(label) >> (8 * at)) & 0xFF);
  return npy_of(type, {static_cast<std::int64_t>(labels.size())}, data);
}

}  // namespace penstock::test
