// Pictures that are made up, but look like photographs to a codec.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::tool {

/// 8-bit RGB, rows from the top.
struct Picture {
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> rgb;
};

/// Smooth noise at several scales, shapes with hard edges and a little grain, so that a JPEG of
/// quality 90 takes about as many bits a pixel as a photograph's. Hue, and the slope of faint
/// stripes, tell the class, so that a model can learn it. A function of the arguments alone.
/// REQUIRES: 0 < height, width <= 65500; 0 <= label < classes.
Picture make_picture(std::uint64_t seed, std::uint64_t index, int label, int classes, int height,
                     int width);

}  // namespace penstock::tool
