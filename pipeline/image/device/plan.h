// The plan by which a device makes an image from a coefficient record, and the layout that follows
// from it. For the host and for CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/image/weights.h"
#include "pipeline/jpeg/strip_plan.h"

namespace penstock::jpeg {

/// The most rows of blocks in a plan. An image of 12 million pixels at 4:2:0 has 750.
inline constexpr int kMaxPlanParts = 1024;
/// The working memory on the device for each image of a batch.
inline constexpr std::int64_t kDeviceImageBytes = 2 << 20;

enum class PlanKind : std::int32_t {
  nothing,       ///< a row of padding: the output is zeros
  coefficients,  ///< the packed bytes are rows of blocks of a record
  pixels         ///< the packed bytes are finished pixels, u8 HWC, from the host
};

struct Box {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
};

/// The plan of one image, which is a row of the component behind the packed bytes. It is plain
/// data, little-endian, without padding. A device checks all of it.
struct DevicePlan {
  PlanKind kind = PlanKind::nothing;
  std::int32_t width = 0;  ///< of the JPEG
  std::int32_t height = 0;
  std::int32_t components = 0;  ///< 1 or 3
  std::int32_t color = 0;       ///< a ColorModel
  std::int32_t channels = 0;    ///< of the decoded pixels, 1 or 3
  std::int32_t denominator = 1;
  std::int32_t horizontal[3] = {};  ///< sampling factors
  std::int32_t vertical[3] = {};
  Box crop;                  ///< this and the fields below: see image::Geometry
  std::int32_t resized = 0;  ///< 0: the window is a part of the JPEG
  std::int32_t target_height = 0;
  std::int32_t target_width = 0;
  Box window;
  std::int32_t mirrored = 0;
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t part_count = 0;
  std::uint16_t quantisation[3][64] = {};  ///< in natural order
  /// Where each part begins in the packed bytes, and where the last one ends.
  std::uint32_t parts[kMaxPlanParts + 1] = {};
  std::uint32_t unused[16 - (28 + 96 + kMaxPlanParts + 1) % 16] = {};
};
static_assert(sizeof(DevicePlan) % 64 == 0);

/// The samples of a component in the working memory. They are those of the blocks that the region
/// needs.
struct DeviceStrip : StripPlan {
  std::int32_t needed = 0;
  std::int32_t blocks = 0;     ///< blocks of a row in the record
  std::int32_t first_row = 0;  ///< rows [first, last) of blocks are in memory
  std::int32_t last_row = 0;
  std::int64_t stride = 0;
  std::int64_t offset = 0;
};

enum class PlanFit : std::int32_t {
  fits,
  sampling,  ///< factors that are not multiples of each other
  size,      ///< too many rows of blocks, or too much working memory
  damaged    ///< no host makes such a plan
};

/// The layout that follows from a plan.
struct DeviceLayout {
  PlanFit fit = PlanFit::damaged;
  Box region;  ///< the needed pixels of the shrunk JPEG; empty: the image is all black
  image::Axis rows;
  image::Axis columns;
  /// The axes' input begins at this row and column of the region: at 0, or a negative one.
  std::int32_t first_row = 0;
  std::int32_t first_column = 0;
  DeviceStrip strips[3];
  std::int32_t first_imcu = 0;  ///< rows [first, last] of MCUs
  std::int32_t last_imcu = 0;
  std::int32_t part_count = 0;
  // Offsets in the working memory, and sizes:
  std::int64_t mixed = 0;        ///< the region after the horizontal resize: planes of window.width
  std::int64_t row_weights = 0;  ///< entries of `row_entry` bytes, one for each row of the window
  std::int64_t column_weights = 0;
  std::int64_t row_entry = 0;
  std::int64_t column_entry = 0;
  std::int64_t bytes = 0;
};

/// The weights of one sample of an axis, in the working memory.
struct DeviceWeights {
  std::int32_t low = 0;  ///< counts from the region's first row or column
  std::int32_t used = 0;
  // `used` weights of 16 bits follow
};

/// The component and the row of blocks that a part holds.
struct PartPlace {
  std::int32_t component = 0;
  std::int32_t row = 0;
};

}  // namespace penstock::jpeg
