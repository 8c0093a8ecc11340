// Synthetic pictures that resemble photographs to a codec.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::tool {

/// A picture in 8-bit RGB, rows from the top.
struct Picture {
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> rgb;
};

/// Makes a picture of smooth noise at several scales, shapes with hard edges, and a little grain.
/// As a JPEG of quality 90, it takes about as many bits per pixel as a photograph. The hue, and the
/// slope of faint stripes, depend on the class, so that a model can learn it. The result depends on
/// the arguments alone. REQUIRES: 0 < height, width <= 65500; 0 <= label < classes.
Picture make_picture(std::uint64_t seed, std::uint64_t index, int label, int classes, int height,
                     int width);

}  // namespace penstock::tool
