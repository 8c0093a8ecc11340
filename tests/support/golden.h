// The golden files of tests/golden, which write.py made with third-party programs.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/support/places.h"

namespace penstock::test {

/// Returns the bytes of a golden file. Its lines hold hexadecimal digits, or "*N" for N zero bytes.
inline std::string read_golden(const std::string& name) {
  const std::string path = source_dir() + "/tests/golden/" + name;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("no golden file " + path);
  std::string bytes;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('*')) {
      bytes.append(std::stoul(line.substr(1)), '\0');
      continue;
    }
    for (std::size_t i = 0; i + 1 < line.size(); i += 2)
      bytes.push_back(static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace penstock::test
