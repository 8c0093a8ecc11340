// Synthetic images that replace MNIST's digits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace penstock::test {

inline std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

/// IDX files of `count` images of `side` x `side` in ten classes. The place of a square tells the
/// class.
class Digits {
 public:
  explicit Digits(std::uint32_t count, std::uint32_t side = 28) {
    const std::uint32_t pixels = side * side;
    std::string images =
        std::string("\0\0\x08\x03", 4) + big_endian(count) + big_endian(side) + big_endian(side);
    const std::size_t header = images.size();
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(count);
    const std::string grain = noise(std::size_t{count} * pixels);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t label = i % 10;
      labels.push_back(static_cast<char>(label));
      labels_.push_back(static_cast<int>(label));
      for (std::uint32_t at = 0; at < pixels; ++at) {
        const bool inside = at / side / 6 == label / 4 && at % side / 7 == label % 4;
        const int dim = static_cast<unsigned char>(grain[std::size_t{i} * pixels + at]) / 4;
        images.push_back(static_cast<char>(inside ? 190 + dim : dim));
      }
    }
    pixels_ = images.substr(header);
    path_ = folder_.write("idx-images", images) + "," + folder_.write("idx-labels", labels);
  }
  const std::string& path() const { return path_; }
  /// The contents of the files.
  const std::string& pixels() const { return pixels_; }
  const std::vector<int>& labels() const { return labels_; }

 private:
  TempFolder folder_;
  std::string path_, pixels_;
  std::vector<int> labels_;
};

}  // namespace penstock::test
