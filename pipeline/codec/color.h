// Color conversions that decoders share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock::image {

/// Computes the luminance of RGB pixels. `out` may be `in`. Source: ITU-R BT.601 in Pillow's fixed
/// point (Convert.c, rgb2l).
inline void rgb_to_gray(const std::uint8_t* in, std::uint8_t* out, std::size_t width) noexcept {
  for (std::size_t x = 0; x < width; ++x, in += 3) {
    out[x] =
        static_cast<std::uint8_t>((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 0x8000) >> 16);
  }
}

/// Converts CMYK as Adobe writes it into JPEGs: inverted. Source: Pillow's Convert.c (cmyk2rgb)
/// behind its raw mode CMYK;I.
inline void inverted_cmyk_to_rgb(const std::uint8_t* in, std::uint8_t* out,
                                 std::size_t width) noexcept {
  for (std::size_t x = 0; x < width; ++x, in += 4, out += 3) {
    const int white = in[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - in[c]) * white + 128;
      const int ink = ((product >> 8) + product) >> 8;
      out[c] = static_cast<std::uint8_t>(std::max(white - ink, 0));
    }
  }
}

}  // namespace penstock::image
