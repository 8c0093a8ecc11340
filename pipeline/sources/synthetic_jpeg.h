// JPEG images out of nothing.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// A baseline JPEG, 4:2:0, quality 90: soft colours, a few shapes and some grain, so that it costs
/// about what a photograph of its size costs to decode. The same for the same arguments and
/// libjpeg-turbo. REQUIRES: 1 <= height, width <= 65500.
std::string make_synthetic_jpeg(int height, int width, std::uint64_t seed);

}  // namespace penstock
