// libpng's warnings that change no pixel. Inline, for tests that judge files themselves.
#pragma once

#include <string_view>

#include <png.h>

namespace penstock::image {

/// True for a warning of metadata, of transparency (which is dropped), of a palette that the image
/// does not use, or of bytes behind the pixels. A wrong checksum of pixels is none of these. Call
/// it in the function that receives warnings.
inline bool is_harmless(png_const_structrp png, std::string_view message) noexcept {
  constexpr png_uint_32 kAncillary = 0x20000000;  // the first letter is lower case
  constexpr png_uint_32 kPalette = 0x504c5445;
  constexpr png_uint_32 kEnd = 0x49454e44;
  constexpr png_uint_32 kPixels = 0x49444154;
  const png_uint_32 chunk = png_get_io_chunk_type(png);
  // If the pixels need a palette that is unusable, that is an error and no warning.
  if ((chunk & kAncillary) != 0 || chunk == kPalette || chunk == kEnd) return true;
  return chunk == kPixels &&
         (message.ends_with("Extra compressed data") || message.ends_with("Too much image data"));
}

}  // namespace penstock::image
