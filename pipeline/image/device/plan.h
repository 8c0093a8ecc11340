// The plan by which a device makes an image from a coefficient record or a JPEG, and the layout
// that follows from it. For the host and for CUDA.
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
  pixels,        ///< the packed bytes are finished pixels, u8 HWC, from the host
  jpeg           ///< the packed bytes are those of a baseline JPEG behind its header
};

struct Box {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
};

/// The contents of a DHT segment: the number of codes of 1…16 bits each, and their symbols.
struct DeviceHuffman {
  std::uint8_t counts[16];
  std::uint8_t symbols[256];
};

/// The number of bits after which the next thread starts. In shorter chunks, more threads are not
/// yet synchronised at the end, so more decode again. Longer ones keep fewer threads busy.
inline constexpr std::int32_t kChunkBits = 2048;
/// A symbol and its value have at most 31 bits, so they touch at most two chunks.
inline constexpr std::int32_t kLeastChunkBits = 32;
inline constexpr std::int32_t kMostChunkBits = 1 << 16;

/// The scan of a baseline JPEG. It has no initialisers, because it is a member of a union.
struct DeviceScan {
  std::uint32_t bytes;            ///< all packed bytes of the image
  std::int32_t restart_interval;  ///< in MCUs; 0: none
  std::int32_t chunk_bits;
  std::uint8_t dc[3];  ///< the number of each component's table: 0 or 1
  std::uint8_t ac[3];
  std::uint8_t unused[2];
  DeviceHuffman tables[4];  ///< two for DCs, then two for ACs
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
  union {
    /// Where each part begins in the packed bytes, and where the last one ends.
    std::uint32_t parts[kMaxPlanParts + 1] = {};
    DeviceScan scan;  ///< if this is a plan for a JPEG
  };
  std::uint32_t unused[16 - (28 + 96 + kMaxPlanParts + 1) % 16] = {};
};
static_assert(sizeof(DevicePlan) % 64 == 0 && sizeof(DeviceScan) <= 4 * kMaxPlanParts);

/// The samples of a component in the working memory. They are those of the blocks that the region
/// needs.
struct DeviceStrip : StripPlan {
  std::int32_t needed = 0;
  std::int32_t blocks = 0;     ///< blocks of a row in the record
  std::int32_t first_row = 0;  ///< rows [first, last) of blocks are in memory
  std::int32_t last_row = 0;
  std::int64_t stride = 0;
  std::int64_t offset = 0;
  std::int64_t coefficients = 0;  ///< of these blocks, if the image is a JPEG
};

enum class PlanFit : std::int32_t {
  fits,
  sampling,  ///< factors that are not multiples of each other
  size,      ///< too many rows of blocks, or too much working memory
  damaged,   ///< no host makes such a plan
  /// It fits, but its entropy-coded bytes are not decoded. After decoding: they are unusual, so the
  /// host has to decode the image.
  undecoded
};

/// The memory of a scan: the coefficients, and what decoding them needs. The latter shares its
/// memory with the samples, which come later.
struct DeviceScanLayout {
  std::int32_t mcus_across = 0;
  std::int32_t mcus = 0;
  std::int32_t blocks_in_mcu = 0;
  std::int32_t first_row = 0;  ///< rows [first, last) of MCUs have needed blocks
  std::int32_t last_row = 0;
  std::int32_t segments = 0;       ///< restart intervals
  std::int32_t most_chunks = 0;    ///< in all segments
  std::int32_t most_rounds = 0;    ///< after the first
  std::int64_t coefficients = 0;   ///< bytes of all components' coefficients, from offset 0 on
  std::int64_t bytes = 0;          ///< offset of the bytes without stuffing
  std::int64_t first_segment = 0;  ///< offset of `segments` + 1 DeviceSegments
  std::int64_t first_chunk = 0;    ///< offset of `most_chunks` DeviceChunks
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
  DeviceScanLayout scan;  ///< of a JPEG
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

/// A restart interval of a JPEG, in the working memory: where it begins.
struct DeviceSegment {
  std::uint32_t byte;
  std::uint32_t chunk;
};

/// A place between two symbols.
struct DeviceState {
  std::uint32_t bit;    ///< of the bytes without stuffing
  std::uint16_t place;  ///< of the block in its MCU
  std::uint16_t coefficient;
};

/// A chunk of a JPEG's bits, in the working memory.
struct DeviceChunk {
  std::uint32_t segment;
  DeviceState begin;
  DeviceState end;
  std::uint32_t blocks;   ///< ended in it; later, those of all chunks before it
  std::uint16_t dcs[3];   ///< sums of each component's differences; later, likewise
  std::uint8_t bad;       ///< its bits are no codes, or those of too many coefficients
  std::uint8_t outdated;  ///< its begin has changed
};

/// The component and the row of blocks that a part holds.
struct PartPlace {
  std::int32_t component = 0;
  std::int32_t row = 0;
};

}  // namespace penstock::jpeg
