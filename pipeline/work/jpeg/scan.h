// One image's entropy-coded bytes on their way to samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/work/jpeg/header.h"
#include "pipeline/work/jpeg/huffman.h"

namespace penstock::jpeg {

/// A reader of bits: `window` holds the next `count` of them at its top. Behind the end of the
/// entropy-coded bytes come zeros, of which `missing` were added so far.
struct Bits {
  const std::uint8_t* next = nullptr;
  const std::uint8_t* end = nullptr;
  const std::uint8_t* plain = nullptr;  ///< eight bytes from anywhere up to here hold no 0xff
  std::uint64_t window = 0;
  int count = 0;
  int missing = 0;
  bool starved = false;  ///< the bytes ended without a marker, or may go on behind fill bytes
};

/// Blocks that are transformed together, by their rows: [row][block][column].
inline constexpr std::size_t kMaxBatch = 4;
struct Batch {
  alignas(64) std::array<std::int16_t, kBlockSize * kMaxBatch> coefficients{};
  std::array<std::uint8_t*, kMaxBatch> targets{};
  std::size_t count = 0;
};

/// A component, while it is decoded.
struct Plane {
  AcTable* ac = nullptr;
  const DcTable* dc = nullptr;
  alignas(64) std::array<std::int16_t, kBlockSize> quantisation{};  ///< natural order, low 16 bits
  int horizontal = 1;                                               ///< blocks of it in an MCU
  int vertical = 1;
  int side = 0;         ///< of a block once transformed: 8, 4, 2, 1; 0: nobody needs it
  int first_block = 0;  ///< columns [first, last) of blocks are transformed
  int last_block = 0;
  std::uint32_t predictor = 0;     ///< of the DC; wraps
  std::uint8_t* target = nullptr;  ///< sample (0, 0) of the row of MCUs that is decoded next
  std::size_t stride = 0;
  Batch batch;
};

/// A run of symbols writes up to eight coefficients from up to 64 behind the last, and advances by
/// up to 255; a power of two, and kBadBlock is within.
inline constexpr std::size_t kBlockRoom = 512;

struct Scan {
  Bits bits;
  int plane_count = 0;
  std::array<Plane, 3> planes;
  /// The blocks of an MCU in their order.
  struct Place {
    Plane* plane = nullptr;
    int x = 0;
    int y = 0;
  };
  int place_count = 0;
  std::array<Place, kMaxBlocksInMcu> places{};
  int mcus = 0;  ///< of a row
  int restart_interval = 0;
  int restart_left = 0;  ///< MCUs in front of the next restart marker
  int next_restart = 0;  ///< its number
  /// Not null: the next interval, whose number is `next_restart`, begins here and not behind a
  /// marker.
  const std::uint8_t* jump = nullptr;

  // The block that is decoded now.
  bool wanted = false;  ///< the row is
  bool last = false;    ///< no other is decoded behind it
  int mcu = 0;
  int place = 0;
  const AcTable* ac = nullptr;
  unsigned coefficient = 0;        ///< the next one; of the row's first block, 0
  std::uint8_t* target = nullptr;  ///< null: nobody needs it
  bool good = true;
  /// That block, and the one before it, which is transformed later: what is loaded right behind
  /// stores has to wait for them.
  std::int16_t* block = nullptr;
  Plane* last_plane = nullptr;
  std::uint8_t* last_target = nullptr;  ///< null: there is none
  alignas(kBlockRoom *
          sizeof(std::int16_t)) std::array<std::array<std::int16_t, kBlockRoom>, 2> blocks{};
};

/// Prepares to read a scan's bytes, which end somewhere in front of the end of `bytes`.
void begin_bits(Bits& bits, std::span<const std::uint8_t> bytes) noexcept;

/// Begins a row of MCUs; if it is `wanted`, the blocks that are needed will be transformed to the
/// planes' targets, beyond whose used part up to kBlockSide - 1 samples may be written. `last`: no
/// other row will be decoded.
void begin_row(Scan& scan, bool wanted, bool last) noexcept;
/// Decodes the row to its end. Reads nothing outside of the scan's bytes whatever they are.
void finish_row(Scan& scan) noexcept;
/// Decodes rows of two scans at once, which is faster, until one comes to its end: that one.
Scan& finish_either(Scan& a, Scan& b) noexcept;
/// Behind a row: false if libjpeg-turbo might warn of its bytes; then nothing may be decoded from
/// the scan any more.
bool is_good(const Scan& scan) noexcept;

/// True if the machine has vectors that decoding uses.
bool has_vectors() noexcept;

/// Behind the last row: nothing is left of the scan, and the image's end follows.
bool at_end(Scan& scan) noexcept;
/// Behind any row: libjpeg-turbo, which reads a little ahead, will not have come to an end of the
/// bytes that has no marker.
bool far_from_end(const Scan& scan) noexcept;

}  // namespace penstock::jpeg
