// JPEGs of synthetic pictures.
#pragma once

#include <string>

#include "tools/penstock/synth/picture.h"

namespace penstock::tool {

struct JpegOptions {
  int quality = 90;  ///< 1 to 100
  bool progressive = false;
  bool gray = false;
};

/// Returns a baseline or progressive JPEG with chroma at half resolution. Throws Error{internal}
/// with libjpeg's message.
std::string encode_jpeg(const Picture& picture, const JpegOptions& options);

/// Returns a well-formed progressive JPEG of about 32 KB, flat gray. Each of its 2,647 scans
/// refines one bit of one coefficient, so a decoder passes over the whole image for every scan.
/// Source: ITU-T T.81, G.1.1.1. REQUIRES: at most 32,767 blocks of 8 x 8.
std::string many_scans_jpeg(int height, int width);

}  // namespace penstock::tool
