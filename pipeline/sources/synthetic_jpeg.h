// Synthetic JPEG images.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// Makes a baseline JPEG, 4:2:0, quality 90. It has soft colours, a few shapes and some grain, so
/// that decoding it costs about as much as decoding a photograph of its size. The same arguments
/// and the same libjpeg-turbo give the same bytes. REQUIRES: 1 <= height, width <= 65500.
std::string make_synthetic_jpeg(int height, int width, std::uint64_t seed);

}  // namespace penstock
