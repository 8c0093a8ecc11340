// What a device is told of an image that it is to make from a coefficient record, and what follows
// from that. For the host and for CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/work/image/weights.h"
#include "pipeline/work/jpeg/strip_plan.h"

namespace penstock::jpeg {

/// Rows of blocks that a plan may name; those of 12 million pixels at 4:2:0 are 750.
inline constexpr int kMaxPlanParts = 1024;
/// Working memory on the device for each image of a batch.
inline constexpr std::int64_t kDeviceImageBytes = 2 << 20;

enum class PlanKind : std::int32_t {
  nothing,       ///< a row of padding: zeros come out
  coefficients,  ///< the packed bytes are rows of blocks of a record
  pixels         ///< they are the finished pixels, u8 HWC, that the host made
};

struct Box {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
};

/// One image: a row of the component behind the packed bytes. Plain data, little-endian, without
/// padding; a device checks all of it.
struct DevicePlan {
  PlanKind kind = PlanKind::nothing;
  std::int32_t width = 0;  ///< of the JPEG
  std::int32_t height = 0;
  std::int32_t components = 0;  ///< 1 or 3
  std::int32_t color = 0;       ///< of ColorModel
  std::int32_t channels = 0;    ///< of the decoded pixels, 1 or 3
  std::int32_t denominator = 1;
  std::int32_t horizontal[3] = {};  ///< sampling factors
  std::int32_t vertical[3] = {};
  Box crop;                  ///< see image::Geometry; here and below
  std::int32_t resized = 0;  ///< 0: the window is one of the JPEG
  std::int32_t target_height = 0;
  std::int32_t target_width = 0;
  Box window;
  std::int32_t mirrored = 0;
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t part_count = 0;
  std::uint16_t quantisation[3][64] = {};       ///< in natural order
  std::uint32_t parts[kMaxPlanParts + 1] = {};  ///< where each begins in the packed bytes; an end
  std::uint32_t unused[16 - (28 + 96 + kMaxPlanParts + 1) % 16] = {};
};
static_assert(sizeof(DevicePlan) % 64 == 0);

/// A component's samples in the working memory: of those blocks that the region needs.
struct DeviceStrip : StripPlan {
  std::int32_t needed = 0;
  std::int32_t blocks = 0;     ///< of a row in the record
  std::int32_t first_row = 0;  ///< rows [first, last) of blocks are there
  std::int32_t last_row = 0;
  std::int64_t stride = 0;
  std::int64_t offset = 0;
};

enum class PlanFit : std::int32_t {
  fits,
  sampling,  ///< factors that do not divide each other
  size,      ///< too many rows of blocks, or too much working memory
  damaged    ///< no host makes such a plan
};

/// What follows from a plan.
struct DeviceLayout {
  PlanFit fit = PlanFit::damaged;
  Box region;  ///< the pixels of the shrunk JPEG that are needed; empty: all is black
  image::Axis rows;
  image::Axis columns;
  std::int32_t first_row = 0;  ///< the axes' input begins at this row of the region, or above
  std::int32_t first_column = 0;
  DeviceStrip strips[3];
  std::int32_t first_imcu = 0;  ///< rows [first, last] of MCUs
  std::int32_t last_imcu = 0;
  std::int32_t part_count = 0;
  // In the working memory.
  std::int64_t mixed = 0;        ///< rows of the region, resized: planes of window.width
  std::int64_t row_weights = 0;  ///< entries of `row_entry` bytes for each row of the window
  std::int64_t column_weights = 0;
  std::int64_t row_entry = 0;
  std::int64_t column_entry = 0;
  std::int64_t bytes = 0;
};

/// The weights of one sample of an axis, in the working memory.
struct DeviceWeights {
  std::int32_t low = 0;  ///< from the region's first row or column
  std::int32_t used = 0;
  // `used` weights of 16 bits
};

/// Which component's row of blocks a part is.
struct PartPlace {
  std::int32_t component = 0;
  std::int32_t row = 0;
};

}  // namespace penstock::jpeg
