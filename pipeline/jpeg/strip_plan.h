// The samples of a component at a scale, and those that a region needs. For the host and for CUDA.
// Source: libjpeg's jdmaster.c and jdsample.c.
#pragma once

#include <cstdint>

#include "pipeline/core/both.h"

namespace penstock::jpeg {

/// The way in which a component's samples become pixels.
enum class Upsampling : std::int32_t { none, columns, rows, both, repeat };

/// A component of an image, and the part of it that is wanted.
struct StripInput {
  std::int32_t width = 0;  ///< of the image
  std::int32_t height = 0;
  std::int32_t horizontal = 1;  ///< sampling factors
  std::int32_t vertical = 1;
  std::int32_t most_across = 1;  ///< the largest factor of all components
  std::int32_t most_down = 1;
  std::int32_t denominator = 1;  ///< the scale: 1, 2, 4 or 8
  std::int32_t left = 0;         ///< columns [left, right) of the shrunk image are wanted
  std::int32_t right = 0;
  bool needed = true;  ///< false: nothing of it is upsampled
};

struct StripPlan {
  bool possible = false;   ///< false: its factors do not divide those of the others
  std::int32_t side = 8;   ///< of a block's samples
  std::int32_t width = 0;  ///< samples that belong to the whole image, without padding
  std::int32_t height = 0;
  Upsampling upsampling = Upsampling::none;
  std::int32_t across = 1;  ///< pixels for each sample
  std::int32_t down = 1;
  std::int32_t first = 0;  ///< columns [first, last) of samples are wanted
  std::int32_t last = 0;
  std::int32_t first_block = 0;  ///< blocks [first, last) hold these and their neighbours
  std::int32_t last_block = 0;

  /// True if pixels depend on the rows of samples above and below.
  PENSTOCK_BOTH bool has_context() const {
    return upsampling == Upsampling::rows || upsampling == Upsampling::both;
  }
};

PENSTOCK_BOTH inline StripPlan plan_strip(const StripInput& in) {
  constexpr std::int32_t kSide = 8;
  StripPlan strip;
  const std::int32_t least = kSide / in.denominator;  // of the largest component's blocks
  strip.side = least;
  while (strip.side < kSide && in.most_across * least % (in.horizontal * strip.side * 2) == 0 &&
         in.most_down * least % (in.vertical * strip.side * 2) == 0)
    strip.side *= 2;
  strip.width = both::divide_up(in.width * in.horizontal * strip.side, in.most_across * kSide);
  strip.height = both::divide_up(in.height * in.vertical * strip.side, in.most_down * kSide);
  const std::int32_t in_across = in.horizontal * strip.side / least;
  const std::int32_t in_down = in.vertical * strip.side / least;
  // The library looks at all components, whether they are needed or not.
  if (in_across * least != in.horizontal * strip.side ||
      in_down * least != in.vertical * strip.side || in.most_across % in_across != 0 ||
      in.most_down % in_down != 0)
    return strip;
  strip.possible = true;
  strip.across = in.most_across / in_across;
  strip.down = in.most_down / in_down;
  const bool fancy = least > 1;
  if (!in.needed || (strip.across == 1 && strip.down == 1)) {
    strip.upsampling = Upsampling::none;
  } else if (fancy && strip.across == 2 && strip.down == 1 && strip.width > 2) {
    strip.upsampling = Upsampling::columns;
  } else if (fancy && strip.across == 1 && strip.down == 2) {
    strip.upsampling = Upsampling::rows;
  } else if (fancy && strip.across == 2 && strip.down == 2 && strip.width > 2) {
    strip.upsampling = Upsampling::both;
  } else {
    strip.upsampling = Upsampling::repeat;
  }
  const bool sideways =
      strip.upsampling == Upsampling::columns || strip.upsampling == Upsampling::both;
  const std::int32_t margin = sideways ? 1 : 0;
  strip.first = in.left / strip.across;
  strip.last = both::least(both::divide_up(in.right, strip.across), strip.width);
  strip.first_block = both::most(strip.first - margin, 0) / strip.side;
  strip.last_block = both::divide_up(both::least(strip.last + margin, strip.width), strip.side);
  return strip;
}

}  // namespace penstock::jpeg
