// Decoding one image's entropy-coded bytes to samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/jpeg/header.h"
#include "pipeline/jpeg/huffman.h"

namespace penstock::jpeg {

/// A reader of bits. `window` holds the next `count` bits at its top. Behind the end of the
/// entropy-coded bytes it adds zeros; `missing` counts the bits added so far.
struct Bits {
  const std::uint8_t* next = nullptr;
  const std::uint8_t* end = nullptr;
  /// Eight bytes that begin anywhere up to here hold no 0xff.
  const std::uint8_t* plain = nullptr;
  std::uint64_t window = 0;
  int count = 0;
  int missing = 0;
  /// The bytes ended without a marker, or may continue behind fill bytes.
  bool blocked = false;
};

/// Blocks that are transformed together, stored by their rows: [row][block][column].
inline constexpr std::size_t kMaxBatch = 4;
struct Batch {
  alignas(64) std::array<std::int16_t, kBlockSize * kMaxBatch> coefficients{};
  std::array<std::uint8_t*, kMaxBatch> targets{};
  std::size_t count = 0;
};

/// A component during decoding.
struct Plane {
  AcTable* ac = nullptr;
  const DcTable* dc = nullptr;
  alignas(64) std::array<std::int16_t, kBlockSize> quantisation{};  ///< natural order, low 16 bits
  int horizontal = 1;  ///< blocks of the component in an MCU
  int vertical = 1;
  /// The side of a transformed block: 8, 4, 2 or 1. 0: the component is not needed.
  int side = 0;
  int first_block = 0;  ///< columns [first, last) of blocks are transformed
  int last_block = 0;
  std::uint32_t predictor = 0;     ///< of the DC; it wraps
  std::uint8_t* target = nullptr;  ///< sample (0, 0) of the row of MCUs that is decoded next
  std::size_t stride = 0;
  Batch batch;
};

/// The room for a block. A run of symbols writes up to eight coefficients, up to 64 behind the last
/// one, and advances by up to 255. The room is a power of two, and kBadBlock lies within it.
inline constexpr std::size_t kBlockRoom = 512;

struct Scan {
  Bits bits;
  int plane_count = 0;
  std::array<Plane, 3> planes;
  /// The blocks of an MCU, in their order.
  struct Place {
    Plane* plane = nullptr;
    int x = 0;
    int y = 0;
  };
  int place_count = 0;
  std::array<Place, kMaxBlocksInMcu> places{};
  int mcus = 0;  ///< of a row
  int restart_interval = 0;
  int restart_left = 0;  ///< MCUs before the next restart marker
  int next_restart = 0;  ///< number of that marker
  /// If it is not null, the next interval begins here and not behind a marker. Its number is
  /// `next_restart`.
  const std::uint8_t* jump = nullptr;

  // The block that is being decoded:
  bool wanted = false;  ///< the row is wanted
  bool last = false;    ///< no other row is decoded after it
  int mcu = 0;
  int place = 0;
  const AcTable* ac = nullptr;
  unsigned coefficient = 0;        ///< number of the next one; 0 for the row's first block
  std::uint8_t* target = nullptr;  ///< null: the block is not needed
  bool good = true;
  /// This block, and the one before it. That one is transformed later, because loads that follow
  /// stores to the same memory must wait for them.
  std::int16_t* block = nullptr;
  Plane* last_plane = nullptr;
  std::uint8_t* last_target = nullptr;  ///< null: there is no block before
  alignas(kBlockRoom *
          sizeof(std::int16_t)) std::array<std::array<std::int16_t, kBlockRoom>, 2> blocks{};
};

/// Prepares to read a scan's bytes, which end before the end of `bytes`.
void begin_bits(Bits& bits, std::span<const std::uint8_t> bytes) noexcept;

/// Begins a row of MCUs. If it is `wanted`, the needed blocks will be transformed to the planes'
/// targets. Up to kBlockSide - 1 samples beyond the used part of a target may be written. `last`:
/// no other row will be decoded.
void begin_row(Scan& scan, bool wanted, bool last) noexcept;
/// Decodes the row to its end. Reads nothing outside of the scan's bytes, whatever they are.
void finish_row(Scan& scan) noexcept;
/// Decodes rows of two scans at once, which is faster than one by one. Returns the scan whose row
/// ends first.
Scan& finish_either(Scan& a, Scan& b) noexcept;
/// Call it after a row. False if libjpeg-turbo might warn of its bytes; then nothing more may be
/// decoded from the scan.
bool is_good(const Scan& scan) noexcept;

/// True if the machine has vector instructions that the decoder uses.
bool has_vectors() noexcept;

/// Call it after the last row. True if nothing is left of the scan, and the image's end follows.
bool at_end(Scan& scan) noexcept;
/// Call it after any row. True if libjpeg-turbo, which reads a little ahead, has not yet reached an
/// end of the bytes without a marker.
bool far_from_end(const Scan& scan) noexcept;

}  // namespace penstock::jpeg
